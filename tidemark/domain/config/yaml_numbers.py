"""Numbers of a file that Python would spell otherwise than the file does."""

from decimal import Decimal, InvalidOperation
from typing import Self


def is_exact(near: float, text: str) -> bool:
    """Whether `text` is just this float; with an exponent that is too far for any arithmetic it is none."""
    try:
        return Decimal(repr(near)) == Decimal(text)
    except InvalidOperation:
        return False


class Written:
    """A number, and how it was written: for those to whom it is text, and those who need all of its digits."""

    text: str
    digits: int | float | str
    """The number itself; its text where no float is exactly that number."""

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """A copy is made of the text."""
        return type(self), (self.text,)


class WrittenInt(Written, int):
    """An int such as `1_000` or `+12`."""

    def __new__(cls, text: str) -> Self:
        """Raises ValueError when `text` is no whole number."""
        made = super().__new__(cls, text.replace("_", ""))
        made.text, made.digits = text, int(made)
        return made


class WrittenFloat(Written, float):
    """A float such as `1.50`; the nearest one to a number with more digits than a float has."""

    def __new__(cls, text: str) -> Self:
        """Raises ValueError when `text` is no number."""
        plain = text.replace("_", "")
        made = super().__new__(cls, plain)
        made.text = text
        made.digits = float(made) if is_exact(float(made), plain) else plain
        return made
