"""What the commands print: JSON for programs on stdout, words and tables for people."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tidemark.domain.states import FINE, OUTAGES, State
from tidemark.domain.times import age

WIDE = 200
"""Columns where there is no terminal: a log file must not cut words."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class _Shown(Console):
    """Shows the control characters in names, docs and keys, which are other people's: a terminal would obey them."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(text.translate(_CONTROLS), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(each.text.translate(_CONTROLS), each.style)


def print_json(content: Any) -> None:
    """One JSON document on stdout, escaped where it is no UTF-8 otherwise: half a surrogate pair is no letter."""
    text = json.dumps(content, default=str, ensure_ascii=False)
    try:
        text.encode()
        plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    except UnicodeEncodeError:
        plain = True
    sys.stdout.write((json.dumps(content, default=str) if plain else text) + "\n")


def console(*, as_json: bool = False) -> Console:
    """For words and tables; under --json they go to stderr, stdout belongs to the document.

    What stands in brackets or between colons is text: names, docs and keys are other people's.
    """
    made = _Shown(stderr=as_json, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = WIDE
    return made


def show_error(message: str, next_step: str, safe: str = "") -> None:
    """On stderr: what went wrong, what is not lost, what to do now."""
    err = _Shown(stderr=True, highlight=False, soft_wrap=True)
    err.print(Text(message, style="red"))
    if safe:
        err.print(Text.assemble(("Safe: ", "bold"), safe))
    if next_step:
        err.print(Text.assemble(("Next: ", "bold"), next_step))


def state_text(state: State) -> Text:
    """A state in the color of its gravity."""
    if state in FINE:
        return Text(state, style={"fresh": "green", "lagging": "yellow", "paused": "cyan"}[state])
    return Text(state, style="magenta" if state in OUTAGES else "bold red")


def ago(at: datetime | None) -> str:
    """How long ago a moment was."""
    return age((datetime.now(UTC) - at).total_seconds() if at else None)


def number(count: int | None) -> str:
    """With thousands separators."""
    return "–" if count is None else f"{count:,}"
