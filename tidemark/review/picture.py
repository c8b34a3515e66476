"""The way of the data as inline SVG: topic, table, quarantine, upsert table, marts. Pure."""

from collections.abc import Collection, Mapping, Sequence
from html import escape

_BOX, _GAP, _STEP = 38, 14, 220
_WIDE = 190
_FITS = 25
"""Characters that fit into a box."""
_SMALLEST = 0.82
"""How far the picture may shrink before it is scrolled."""

Node = tuple[str, str]
"""Kind and name."""


def lineage(
    topic: str, table: str, quarantine: str, upsert: str | None, marts: Mapping[str, Collection[str]]
) -> str:
    """Columns from left to right, one box per node; the text beside it says the same in words.

    `marts`: each with the tables it is made of.
    """
    made = [("quarantine", quarantine), *([("upsert table", upsert)] if upsert else [])]
    beneath = {name: [table] for _, name in made} | {table: [topic]}
    layers: list[list[Node]] = [[("topic", topic)], [("append table", table)], made]
    for mart, depth in _depths(marts, {table: 1, **({upsert: 2} if upsert else {})}).items():
        layers += [[] for _ in range(depth + 1 - len(layers))]
        layers[depth].append(("mart", mart))
        beneath[mart] = sorted(marts[mart])
    return _drawn(layers, beneath)


def _depths(marts: Mapping[str, Collection[str]], known: Mapping[str, int]) -> dict[str, int]:
    """The column of each mart: one to the right of the last table that it is made of."""
    found = dict(known)
    for _ in marts:
        for mart, tables in sorted(marts.items()):
            found[mart] = 1 + max((found[each] for each in tables if each in found), default=1)
    return {mart: found[mart] for mart in sorted(marts)}


def _drawn(layers: Sequence[Sequence[Node]], beneath: Mapping[str, Collection[str]]) -> str:
    height = max(len(layer) for layer in layers) * (_BOX + _GAP) + _GAP
    width = (len(layers) - 1) * _STEP + _WIDE + 2
    places = {
        name: (number * _STEP + 1, (height - len(layer) * (_BOX + _GAP) + _GAP) / 2 + row * (_BOX + _GAP))
        for number, layer in enumerate(layers)
        for row, (_, name) in enumerate(layer)
    }
    arrows = [
        _arrow(places[each], places[name]) for name in beneath for each in beneath[name] if each in places
    ]
    nodes = [_node(kind, name, *places[name]) for layer in layers for kind, name in layer]
    size = f"max-width:{width}px;min-width:{width * _SMALLEST:.0f}px"
    opening = f'<svg class="lineage" style="{size}" role="img" viewBox="0 0 {width} {height}" '
    return "".join([opening, f'aria-label="{escape(_told(layers))}">', *arrows, *nodes, "</svg>"])


def _node(kind: str, name: str, x: float, y: float) -> str:
    shown = name if len(name) <= _FITS else f"{name[: _FITS - 1]}…"
    return (
        f'<g class="{kind.split(maxsplit=1)[0]}"><title>{escape(name)}</title>'
        f'<rect x="{x}" y="{y:.1f}" width="{_WIDE}" height="{_BOX}" rx="6"/>'
        f'<text class="kind" x="{x + 10}" y="{y + 14:.1f}">{kind}</text>'
        f'<text x="{x + 10}" y="{y + 30:.1f}">{escape(shown)}</text></g>'
    )


def _arrow(begin: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = begin[0] + _WIDE, begin[1] + _BOX / 2, end[0], end[1] + _BOX / 2
    middle = (x1 + x2) / 2
    return f'<path class="arrow" d="M{x1},{y1:.1f} C{middle},{y1:.1f} {middle},{y2:.1f} {x2},{y2:.1f}"/>'


def _told(layers: Sequence[Sequence[Node]]) -> str:
    return "Lineage: " + "; then ".join(", ".join(f"{kind} {name}" for kind, name in c) for c in layers)
