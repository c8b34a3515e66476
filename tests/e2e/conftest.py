"""A lakehouse per test: fresh contracts on the session's stack."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakehouse as made
import pytest


@pytest.fixture
def lakehouse(stack: dict[str, Any], tmp_path: Path) -> Iterator[made.Lakehouse]:
    yield from made.lakehouse(stack, tmp_path)
