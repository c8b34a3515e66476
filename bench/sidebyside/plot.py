"""Horizontal bars as SVG: CPU per record of every peer, the start as a lighter piece, a line from least to most."""

from collections.abc import Sequence
from html import escape

from bench.sidebyside.figures import OURS, Figures

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 210, 120, 30, 50
OWN, OTHER, START = "#2f7d4f", "#5b7083", "#c9d3db"


def bars(found: Sequence[Figures], title: str) -> str:
    """One bar per peer, the cheapest first."""
    ordered = sorted(found, key=lambda each: each.sustained_cpu.median)
    most = max((max(each.whole_cpu.most, each.sustained_cpu.most) for each in ordered), default=1) or 1
    scale = (WIDTH - LEFT - RIGHT) / most
    rows = "".join(_bar(each, TOP + place * ROW, scale) for place, each in enumerate(ordered))
    height = TOP + ROW * len(ordered) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="24" font-size="15">{escape(title)}: CPU µs per record, sustained '
        f"(light: with the start)</text>{rows}</svg>\n"
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
