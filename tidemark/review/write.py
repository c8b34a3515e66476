"""The pack on disk: one file, replaced whole."""

from collections.abc import Sequence
from pathlib import Path

from tidemark.review.collect import Review
from tidemark.review.pack import FILE, page


def write(reviews: Sequence[Review], catalog: str, folder: Path) -> Path:
    """Write `index.html` into `folder`; a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{FILE}.new"
    fresh.write_text(page(reviews, catalog), encoding="utf-8")
    return fresh.replace(folder / FILE)
