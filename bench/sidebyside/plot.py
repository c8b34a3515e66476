"""Horizontal bars as SVG: CPU per record of every peer, its start as a lighter piece; and how fresh tables were."""

from collections.abc import Iterable, Sequence
from html import escape

from bench.sidebyside.figures import OURS, Figures

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 210, 120, 30, 50
OWN, OTHER, START = "#2f7d4f", "#5b7083", "#c9d3db"


def bars(found: Sequence[Figures], title: str) -> str:
    """One bar per peer, the cheapest first; a line from the least to the most of the rounds."""
    ordered = sorted(found, key=lambda each: each.sustained_cpu.median)
    scale = _scale(max(each.whole_cpu.most, each.sustained_cpu.most) for each in ordered)
    rows = "".join(_bar(each, TOP + place * ROW, scale) for place, each in enumerate(ordered))
    return _page(f"{title}: CPU µs per record, sustained (light: with the start)", rows, len(ordered))


def spans(rows: Sequence[tuple[str, float, float, float]], title: str) -> str:
    """One line per name: a bar to the first figure, a lighter one to the second, a line to the third."""
    scale = _scale(most for *_, most in rows)
    drawn = "".join(_span(row, TOP + place * ROW, scale) for place, row in enumerate(rows))
    return _page(title, drawn, len(rows))


def _scale(values: Iterable[float]) -> float:
    return (WIDTH - LEFT - RIGHT) / (max(values, default=1) or 1)


def _page(title: str, rows: str, count: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{TOP + ROW * count + 10}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="24" font-size="15">{escape(title)}</text>{rows}</svg>\n'
    )


def _span(row: tuple[str, float, float, float], top: int, scale: float) -> str:
    name, middle, high, most = row
    colour, y = OWN if name == OURS else OTHER, top + ROW // 2 + 1
    return (
        f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{LEFT}" y="{top + 3}" width="{high * scale:.1f}" height="18" fill="{START}"/>'
        f'<rect x="{LEFT}" y="{top + 3}" width="{middle * scale:.1f}" height="18" fill="{colour}"/>'
        f'<line x1="{LEFT}" x2="{LEFT + most * scale:.1f}" y1="{top + 12}" y2="{top + 12}" stroke="black"/>'
        f'<text x="{LEFT + most * scale + 8:.1f}" y="{y}">{middle:.1f} / {high:.1f} / {most:.1f}</text>'
    )


def _bar(each: Figures, top: int, scale: float) -> str:
    sustained, whole = each.sustained_cpu, each.whole_cpu
    middle = top + ROW // 2
    colour = OWN if each.peer == OURS else OTHER
    return (
        f'<text x="{LEFT - 8}" y="{middle + 1}" text-anchor="end">{escape(each.peer)}</text>'
        f'<rect x="{LEFT}" y="{top + 3}" width="{whole.median * scale:.1f}" height="18" fill="{START}"/>'
        f'<rect x="{LEFT}" y="{top + 3}" width="{max(sustained.median, 0) * scale:.1f}" height="18" fill="{colour}"/>'
        f'<line x1="{LEFT + sustained.least * scale:.1f}" x2="{LEFT + sustained.most * scale:.1f}" '
        f'y1="{top + 12}" y2="{top + 12}" stroke="black"/>'
        f'<text x="{LEFT + max(whole.median, sustained.most) * scale + 8:.1f}" y="{middle + 1}">'
        f"{sustained.median:.1f} ({whole.median:.1f})</text>"
    )
