"""Seeds of what is tried at random: `make test` takes the same everywhere, `make test-long` new ones each time.

TIDEMARK_TEST_SEED names one, or says `random`.
"""

import os
import secrets
from typing import Any

import pytest

ASKED = os.environ.get("TIDEMARK_TEST_SEED", "1")
ALWAYS_NEW = ASKED == "random"


def seed() -> int:
    """The seed of this test, shown when it fails."""
    chosen = secrets.randbelow(2**32) if ALWAYS_NEW else int(ASKED)
    print(f"TIDEMARK_TEST_SEED={chosen}")
    return chosen


def first(usual: int, *, of: int) -> list[Any]:
    """The seeds of a parametrized test, of which all but the first `usual` are `long`."""
    return [*range(usual), *(pytest.param(each, marks=pytest.mark.long) for each in range(usual, of))]
