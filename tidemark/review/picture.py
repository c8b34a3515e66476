"""The way of the data as inline SVG: topic, table, quarantine, upsert table, marts. Pure."""

from collections.abc import Sequence
from html import escape

_BOX, _GAP, _STEP = 38, 14, 220
_WIDE = 190
_FITS = 25
"""Characters that fit into a box."""


def lineage(topic: str, table: str, quarantine: str, upsert: str | None, marts: Sequence[str]) -> str:
    """Columns from left to right, one box per node; the text beside it says the same in words."""
    made = [("quarantine", quarantine), *([("upsert table", upsert)] if upsert else [])]
    columns = [[("topic", topic)], [("append table", table)], [*made, *(("mart", each) for each in marts)]]
    rows = max(len(column) for column in columns)
    height = rows * (_BOX + _GAP) + _GAP
    box = f"0 0 {2 * _STEP + _WIDE + 2} {height}"
    parts = [f'<svg class="lineage" role="img" viewBox="{box}" aria-label="{escape(_told(columns))}">']
    for number, column in enumerate(columns):
        offset = (height - len(column) * (_BOX + _GAP) + _GAP) / 2
        for row, (kind, name) in enumerate(column):
            x, y = number * _STEP + 1, offset + row * (_BOX + _GAP)
            if number:
                begin = (number - 1) * _STEP + _WIDE + 1
                parts.append(_arrow(begin, height / 2, x, y + _BOX / 2))
            parts.append(_node(kind, name, x, y))
    return "".join([*parts, "</svg>"])


def _node(kind: str, name: str, x: float, y: float) -> str:
    shown = name if len(name) <= _FITS else f"{name[: _FITS - 1]}…"
    return (
        f'<g class="{kind.split(maxsplit=1)[0]}"><title>{escape(name)}</title>'
        f'<rect x="{x}" y="{y:.1f}" width="{_WIDE}" height="{_BOX}" rx="6"/>'
        f'<text class="kind" x="{x + 10}" y="{y + 14:.1f}">{kind}</text>'
        f'<text x="{x + 10}" y="{y + 30:.1f}">{escape(shown)}</text></g>'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f'<path class="arrow" d="M{x1},{y1:.1f} C{middle},{y1:.1f} {middle},{y2:.1f} {x2},{y2:.1f}"/>'


def _told(columns: Sequence[Sequence[tuple[str, str]]]) -> str:
    return "Lineage: " + "; then ".join(", ".join(f"{kind} {name}" for kind, name in c) for c in columns)
