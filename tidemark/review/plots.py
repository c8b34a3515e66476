"""Plots as inline SVG: drawn once, readable in both color schemes, described for those who do not see them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import ceil

WIDTH, HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 12, 12, 28
Point = tuple[datetime, float]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a value of a time goes."""

    first: datetime
    seconds: float
    top: float

    def x(self, at: datetime) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - self.first).total_seconds() / self.seconds

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.top


def over_time(
    points: Sequence[Point],
    *,
    title: str,
    unit: str = "",
    limits: Sequence[tuple[str, float]] = (),
    bars: bool = False,
) -> str:
    """One series over time; `limits` are drawn across. Bars are counts. Without anything to see a sentence says so."""
    if not points:
        return f'<p class="none">{escape(title)}: nothing yet.</p>'
    first, last = points[0][0], points[-1][0]
    highest = max(value for _, value in points)
    if bars and not highest:
        return f'<p class="none">{escape(title)}: none.</p>'
    shown = [(name, limit) for name, limit in limits if limit <= max(3 * highest, 1.0)]
    top = 2.0 * ceil(highest / 2) if bars else max([highest, *(limit for _, limit in shown)]) * 1.05 or 1.0
    frame = _Frame(first, max((last - first).total_seconds(), 1.0), top)
    series = _bars(points, frame) if bars else _line(points, frame)
    return "".join(
        [
            f'<svg class="plot" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" aria-label="{_told(points, title, unit)}">',
            *_grid(frame, unit),
            *_limits(shown, frame),
            series,
            f'<text x="{_LEFT}" y="{HEIGHT - 8}">{minute(first)}</text>',
            f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{minute(last)}</text>',
            "</svg>",
        ]
    )


def short(value: float) -> str:
    """1234567 as 1.2M."""
    rounded = float(f"{value:.3g}")
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded >= size:
            return f"{rounded / size:.3g}{letter}"
    return f"{rounded:.3g}"


def minute(at: datetime) -> str:
    """2026-01-31 12:00Z."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def _line(points: Sequence[Point], frame: _Frame) -> str:
    path = " ".join(f"{frame.x(at):.1f},{frame.y(value):.1f}" for at, value in points)
    last = points[-1]
    dot = f'<circle class="mark" r="3" cx="{frame.x(last[0]):.1f}" cy="{frame.y(last[1]):.1f}"/>'
    return f'<polyline class="series" points="{path}"/>{dot}'


def _bars(points: Sequence[Point], frame: _Frame) -> str:
    width = max(1.5, min(12.0, (WIDTH - _LEFT - _RIGHT) / len(points) * 0.7))
    base = frame.y(0.0)
    return "".join(
        f'<rect class="bar" x="{min(frame.x(at), WIDTH - _RIGHT - width):.1f}" y="{frame.y(value):.1f}" '
        f'width="{width:.1f}" height="{max(0.0, base - frame.y(value)):.1f}"/>'
        for at, value in points
    )


def _grid(frame: _Frame, unit: str) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{frame.y(v):.1f}" y2="{frame.y(v):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{frame.y(v) + 4:.1f}" text-anchor="end">{short(v)}{unit}</text>'
        for v in (0.0, frame.top / 2, frame.top)
    ]


def _limits(limits: Sequence[tuple[str, float]], frame: _Frame) -> list[str]:
    return [
        f'<line class="limit" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{frame.y(v):.1f}" y2="{frame.y(v):.1f}"/>'
        f'<text class="limit" x="{_LEFT + 4}" y="{frame.y(v) - 4:.1f}">{escape(name)}</text>'
        for name, v in limits
    ]


def _told(points: Sequence[Point], title: str, unit: str) -> str:
    values = [value for _, value in points]
    said = f"{title}: {len(points)} points from {minute(points[0][0])} to {minute(points[-1][0])}"
    return escape(f"{said}, lowest {short(min(values))}{unit}, highest {short(max(values))}{unit}.")
