"""JSON for people to look at: what no float is exactly stays the text that it was, so that JSON can tell it again."""

import json
from typing import Any

from tidemark.domain.config.yaml_numbers import is_exact


def read_exactly(text: str | bytes) -> Any:
    """The document. NaN, infinities and numbers with more digits than a float has are text.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deep.
    """
    return json.loads(text, parse_float=_number, parse_constant=str)


def _number(text: str) -> float | str:
    near = float(text)
    return near if is_exact(near, text) else text
