"""The pack on disk: one file, replaced whole."""

from collections.abc import Sequence
from pathlib import Path

from tidemark.engine.whole_file import replace_whole
from tidemark.review.collect import Review
from tidemark.review.pack import FILE, page


def write(reviews: Sequence[Review], catalog: str, folder: Path) -> Path:
    """Write `index.html` into `folder`; a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    replace_whole(file, page(reviews, catalog))
    return file
