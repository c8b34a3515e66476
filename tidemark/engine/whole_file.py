"""A small file that is replaced whole: a full disk or a kill leaves what was there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


def replace_whole(file: Path, text: str) -> None:
    """Let the file hold `text`. Raises OSError: then it is as it was."""
    with written_aside(file, text) as aside:
        aside.replace(file)


@contextmanager
def written_aside(file: Path, text: str) -> Iterator[Path]:
    """A hidden file beside `file` that holds `text` while the block lasts. Raises OSError."""
    aside = file.with_name(f".{uuid4().hex}.new")
    try:
        aside.write_text(text, encoding="utf-8")
        yield aside
    finally:
        aside.unlink(missing_ok=True)
