"""The way of the data as inline SVG: topic, table, quarantine, upsert table, marts. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape

_BOX, _GAP, _STEP = 38, 14, 220
_WIDE = 190
_FITS = 25
"""Characters that fit into a box."""
_SMALLEST = 0.82
"""How far the picture may shrink before it is scrolled."""
_INDENT, _LARGEST = 22, 1.4
"""Of a layer in the picture for phones, and how far that one may grow."""

_ASIDE = 4
"""Left of a layer, where the lines from the layer above do not run."""

Node = tuple[str, str]
"""Kind and name."""
Place = tuple[float, float]
"""The upper left corner of a box."""


def lineage(
    topic: str, table: str, quarantine: str, upsert: str | None, marts: Mapping[str, Collection[str]]
) -> str:
    """One box per node, across and down: the page shows the one that fits. The text beside it says the same in words.

    `marts`: each with the tables it is made of.
    """
    made = [("quarantine", quarantine), *([("upsert table", upsert)] if upsert else [])]
    beneath = {name: [table] for _, name in made} | {table: [_key("topic", topic)]}
    layers: list[list[Node]] = [[("topic", topic)], [("append table", table)], made]
    for mart, depth in _depths(marts, {table: 1, **({upsert: 2} if upsert else {})}).items():
        layers += [[] for _ in range(depth + 1 - len(layers))]
        layers[depth].append(("mart", mart))
        beneath[mart] = sorted(marts[mart])
    return _across(layers, beneath) + _down(layers, beneath)


def _depths(marts: Mapping[str, Collection[str]], known: Mapping[str, int]) -> dict[str, int]:
    """The column of each mart: one to the right of the last table that it is made of."""
    found = dict(known)
    for _ in marts:
        for mart, tables in sorted(marts.items()):
            found[mart] = 1 + max((found[each] for each in tables if each in found), default=1)
    return {mart: found[mart] for mart in sorted(marts)}


def _across(layers: Sequence[Sequence[Node]], beneath: Mapping[str, Collection[str]]) -> str:
    """Layers from left to right, for screens that are wide enough."""
    height = max(len(layer) for layer in layers) * (_BOX + _GAP) + _GAP
    width = (len(layers) - 1) * _STEP + _WIDE + 2
    places = {
        _key(*node): (
            number * _STEP + 1,
            (height - len(layer) * (_BOX + _GAP) + _GAP) / 2 + row * (_BOX + _GAP),
        )
        for number, layer in enumerate(layers)
        for row, node in enumerate(layer)
    }
    opening = f'<svg class="lineage across" style="max-width:{width}px;min-width:{width * _SMALLEST:.0f}px"'
    return _drawn(opening, (width, height), layers, beneath, places, _curve)


def _down(layers: Sequence[Sequence[Node]], beneath: Mapping[str, Collection[str]]) -> str:
    """A line for each box, moved in by its layer: as a phone shows it."""
    listed = [(number, _key(*node)) for number, layer in enumerate(layers) for node in layer]
    width = (len(layers) - 1) * _INDENT + _WIDE + 2
    height = len(listed) * (_BOX + _GAP) + _GAP
    places = {
        key: (number * _INDENT + 1.0, row * (_BOX + _GAP) + _GAP / 2)
        for row, (number, key) in enumerate(listed)
    }
    opening = f'<svg class="lineage down" style="max-width:{width * _LARGEST:.0f}px"'
    last = {number * _INDENT + 1.0: key for number, key in listed}

    def elbow(begin: Place, end: Place) -> str:
        return _elbow(begin, end) if places[last[begin[0]]] == begin else _around(begin, end)

    return _drawn(opening, (width, height), layers, beneath, places, elbow)


def _drawn(
    opening: str,
    size: tuple[int, int],
    layers: Sequence[Sequence[Node]],
    beneath: Mapping[str, Collection[str]],
    places: Mapping[str, Place],
    arrow: Callable[[Place, Place], str],
) -> str:
    paths = [
        f'<path class="arrow" d="{arrow(places[each], places[name])}"/>'
        for name in beneath
        for each in beneath[name]
        if each in places
    ]
    nodes = [_node(kind, name, *places[_key(kind, name)]) for layer in layers for kind, name in layer]
    view = f'role="img" viewBox="0 0 {size[0]} {size[1]}" aria-label="{escape(_told(layers))}"'
    return "".join([f"{opening} {view}>", *paths, *nodes, "</svg>"])


def _key(kind: str, name: str) -> str:
    """What a box is known by: a topic and its table may have one name."""
    return f"topic {name}" if kind == "topic" else name


def _node(kind: str, name: str, x: float, y: float) -> str:
    shown = name if len(name) <= _FITS else f"{name[: _FITS - 1]}…"
    return (
        f'<g class="{kind.split(maxsplit=1)[0]}"><title>{escape(name)}</title>'
        f'<rect x="{x}" y="{y:.1f}" width="{_WIDE}" height="{_BOX}" rx="6"/>'
        f'<text class="kind" x="{x + 10}" y="{y + 14:.1f}">{kind}</text>'
        f'<text x="{x + 10}" y="{y + 30:.1f}">{escape(shown)}</text></g>'
    )


def _curve(begin: Place, end: Place) -> str:
    """From the right side of a box to the left side of the next."""
    x1, y1, x2, y2 = begin[0] + _WIDE, begin[1] + _BOX / 2, end[0], end[1] + _BOX / 2
    middle = (x1 + x2) / 2
    return f"M{x1},{y1:.1f} C{middle},{y1:.1f} {middle},{y2:.1f} {x2},{y2:.1f}"


def _elbow(begin: Place, end: Place) -> str:
    """From below the left edge of a box down, and to the left side of one further below."""
    return f"M{begin[0] + _INDENT / 2},{begin[1] + _BOX:.1f} V{end[1] + _BOX / 2:.1f} H{end[0]}"


def _around(begin: Place, end: Place) -> str:
    """The same, beside the boxes of its own layer that lie between."""
    return f"M{begin[0]},{begin[1] + _BOX * 0.75:.1f} h-{_ASIDE} V{end[1] + _BOX / 2:.1f} H{end[0]}"


def _told(layers: Sequence[Sequence[Node]]) -> str:
    return "Lineage: " + "; then ".join(", ".join(f"{kind} {name}" for kind, name in c) for c in layers)
