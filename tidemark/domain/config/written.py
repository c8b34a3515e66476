"""A number of a file that no float is exactly."""

from typing import Self


class Written(float):
    """The nearest float to a number with more digits, and the number as it was written for those who need them all."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Raises ValueError when `text` is no number."""
        made = super().__new__(cls, text)
        made.text = text
        return made
