"""The home that TIDEMARK_TEST_HOME names: tests drop tables in it by name, so it is nobody else's."""

from pathlib import Path

import pytest

MARK = "of-the-tests"


def own_home(home: Path) -> Path:
    """The home, marked as the tests' own at its first use. Raises UsageError for one that others have filled."""
    if not (home / MARK).exists():
        if home.exists() and any(home.iterdir()):
            raise pytest.UsageError(
                f"TIDEMARK_TEST_HOME={home}: tests drop tables there, and it is not known as theirs: "
                f"name a new or an empty folder, or put an empty file {MARK} into it"
            )
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / MARK).touch()
    return home
