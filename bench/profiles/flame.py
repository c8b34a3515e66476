"""Flame graphs from collapsed stacks (`thread;frame;frame 12` a line): a tree, its top frames, and a small SVG."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

WIDTH, ROW, LEAST = 1200, 15, 0.005
"""Pixels; frames narrower than this share of the whole are left out, so that a page stays small."""
COLOURS = {"tidemark": "#7b5", "java": "#da6", "python": "#8ad", "native": "#ccc"}
_NUMBERS = re.compile(r"[-#]?\d+(\.\d+)*|0x[0-9a-f]+")
_THREAD = re.compile(r"_opId| for task| ?tid=")
_HIDDEN = re.compile(r"\$\$Lambda[^.]*|/0x[0-9a-f]+|\.0x[0-9a-f]+")


@dataclass
class Frame:
    """One frame of the merged tree: samples in it, and those in it alone."""

    name: str
    samples: int = 0
    own: int = 0
    children: dict[str, "Frame"] = field(default_factory=dict)


def read(text: str) -> Counter[tuple[str, ...]]:
    """Samples by stack, names shortened."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack:
            found[tuple(short(each) for each in stack.split(";"))] += int(count)
    return found


def short(name: str) -> str:
    """A frame without package, address and thread number: org/apache/x/Row.get → Row.get."""
    if name.startswith("["):
        return f"[{_THREAD.split(_NUMBERS.sub('', name.strip('[]')))[0].strip()}]"
    if name.startswith("/"):  # a native library
        return _NUMBERS.sub("", name.rsplit("/", maxsplit=1)[-1].removesuffix(" (deleted)"))
    name = _HIDDEN.sub("", name)
    if "(" in name:  # Python: function (file:line)
        function, _, place = name.partition(" (")
        path = place.rstrip(")").split(":")[0]
        return f"{function} ({path if path.startswith('tidemark/') else '/'.join(path.split('/')[-2:])})"
    return name.split("/")[-1]


def tree(stacks: Counter[tuple[str, ...]]) -> Frame:
    """All stacks merged, the root on top."""
    root = Frame("all")
    for stack, count in stacks.items():
        frame = root
        frame.samples += count
        for name in stack:
            frame = frame.children.setdefault(name, Frame(name))
            frame.samples += count
        frame.own += count
    return root


def top(stacks: Counter[tuple[str, ...]], most: int = 10) -> list[tuple[str, float]]:
    """Frames by their share of samples in which they run themselves."""
    whole = stacks.total() or 1
    own: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
    return [(name, count / whole) for name, count in own.most_common(most)]


def threads(stacks: Counter[tuple[str, ...]], most: int = 8) -> list[tuple[str, float]]:
    """Kinds of threads by their share, where the profiler names them."""
    whole = stacks.total() or 1
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        if stack[0].startswith("["):
            found[stack[0]] += count
    return [(name, count / whole) for name, count in found.most_common(most)]


def through(stacks: Counter[tuple[str, ...]], part: str, most: int) -> list[tuple[str, float]]:
    """Frames with `part` in their names by the share of samples that they or what they call run in."""
    whole = stacks.total() or 1
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        for name in {each for each in stack if part in each}:
            found[name] += count
    return [(name, count / whole) for name, count in found.most_common(most)]


def svg(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """Widths are shares of CPU samples; the name and the share of a frame show when the mouse is over it."""
    root = tree(stacks)
    placed = list(_placed(root, 0.0, 0, root.samples or 1))
    height = (max((depth for *_, depth in placed), default=0) + 1) * ROW + 40
    boxes = "".join(
        _box(name, left, share, height - 20 - (depth + 1) * ROW) for name, left, share, depth in placed
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="10"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="18" font-size="14">{escape(title)}: {root.samples:,} samples</text>{boxes}</svg>\n'
    )


def _placed(frame: Frame, left: float, depth: int, whole: int) -> Iterator[tuple[str, float, float, int]]:
    share = frame.samples / whole
    if share < LEAST:
        return
    yield frame.name, left, share, depth
    for child in sorted(frame.children.values(), key=lambda each: each.name):
        yield from _placed(child, left, depth + 1, whole)
        left += child.samples / whole


def _box(name: str, left: float, share: float, top_: float) -> str:
    width = share * WIDTH
    text = name[: int(width / 5.6)] if width > 30 else ""
    label = f'<text x="{left * WIDTH + 2:.1f}" y="{top_ + 11:.0f}">{escape(text)}</text>' if text else ""
    return (
        f'<rect x="{left * WIDTH:.1f}" y="{top_:.0f}" width="{max(width - 0.5, 0.3):.1f}" height="{ROW - 1}" '
        f'fill="{_colour(name)}"><title>{escape(name)} {share:.1%}</title></rect>{label}'
    )


def _colour(name: str) -> str:
    if "tidemark" in name:
        return COLOURS["tidemark"]
    if "(" in name:
        return COLOURS["python"]
    return COLOURS["java"] if "." in name and "::" not in name else COLOURS["native"]
