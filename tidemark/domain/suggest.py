"""The nearest valid word to one that was mistyped."""

from collections.abc import Iterable
from difflib import get_close_matches

CLOSE = 0.55
"""Below this similarity a suggestion misleads more than it helps."""


def nearest(word: str, valid: Iterable[str], close: float = CLOSE) -> str | None:
    """The word of `valid` that `word` was probably meant to be, or None."""
    words = {candidate.lower(): candidate for candidate in sorted(valid, reverse=True)}
    found = get_close_matches(word.lower(), words, n=1, cutoff=close)
    return words[found[0]] if found else None
