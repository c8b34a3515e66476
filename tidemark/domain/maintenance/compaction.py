"""Compaction as a plan: from what a table's metadata says to the few rewrites that pay, each with its reason.

Pure functions, no clock of their own. A plan is data: the engine runs it, `--dry-run` prints it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from typing import Any

from tidemark.domain.config.contract import Compaction
from tidemark.domain.config.units import counted

SMALL, LARGE = 0.75, 1.8
"""Shares of the target size between which Iceberg's own planner leaves a file alone."""
TIERS = (64, 8)
"""While a partition is being written its files are merged in tiers below target/64 and target/8 first, so that one
that grows is not rewritten whole with every few batches."""
HOT_FACTOR = 4
"""A partition that is being written now waits for so many times `min_input_files`."""
HOT_FOR = timedelta(minutes=10)
COMMITS = 4
"""Rewrites of one table in one run: each moves `main` under a running ingest."""
PARTITIONS_AT_ONCE = 100
MANY_MANIFESTS = 32
MANIFEST_BYTES = 8 * 1024**2
MANY_DANGLING = 100


@dataclass(frozen=True, slots=True)
class Partition:
    """Live files of one table partition. `where` selects it in Spark SQL; None when that cannot be said."""

    name: str
    where: str | None
    sizes: tuple[int, ...] = ()
    rows: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    scoped: bool = True
    """Each delete file belongs to one data file."""
    written_at: datetime | None = None

    @property
    def delete_ratio(self) -> float:
        """Rows deleted but still in the data files, as a share of the rows there."""
        return self.deleted_rows / self.rows if self.rows else 0.0

    def below(self, size: float) -> tuple[int, ...]:
        """The sizes of files smaller than `size`."""
        return tuple(each for each in self.sizes if each < size)

    def ideal_files(self, target: int) -> int:
        """Files that a fresh rewrite would make."""
        return -(-sum(self.sizes) // target) if self.sizes else 0


@dataclass(frozen=True, slots=True)
class Layout:
    """A table at one snapshot, as its manifests tell."""

    partitions: tuple[Partition, ...] = ()
    manifests: int = 0
    manifest_bytes: int = 0
    scattered: tuple[int, ...] = ()
    """Partition specs whose manifests would be fewer if they were rewritten, which is done by spec."""
    snapshots: int = 0
    dangling: tuple[int, ...] = ()
    """Rows of each position delete file whose data file is gone: nobody reads it, summaries go on counting them."""

    @property
    def data_files(self) -> int:
        """Live data files."""
        return sum(len(each.sizes) for each in self.partitions)

    @property
    def delete_files(self) -> int:
        """Delete files of live data files, deletion vectors counted one by one."""
        return sum(each.delete_files for each in self.partitions)

    @property
    def bytes(self) -> int:
        """Of live data files."""
        return sum(sum(each.sizes) for each in self.partitions)

    def small_ratio(self, target: int) -> float:
        """The share of data files that are below three quarters of the target where a rewrite would make fewer."""
        spare = sum(max(0, len(each.sizes) - each.ideal_files(target)) for each in self.partitions)
        return spare / self.data_files if self.data_files else 0.0

    @property
    def delete_ratio(self) -> float:
        """Deleted rows that are still in the files, as a share of all rows there."""
        return sum(each.deleted_rows for each in self.partitions) / self.rows if self.rows else 0.0

    @property
    def rows(self) -> int:
        """Rows in the data files, deleted ones among them."""
        return sum(each.rows for each in self.partitions)

    def read_amplification(self, target: int) -> float:
        """Files that a full scan opens, over those of a fresh rewrite."""
        ideal = sum(each.ideal_files(target) for each in self.partitions)
        return (self.data_files + self.delete_files) / ideal if ideal else 1.0


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One commit: files below `below` bytes (and those heavy with deletes) in some partitions become few.

    `max_files` bounds it when a partition is larger than what this run may rewrite.
    """

    partitions: tuple[str, ...]
    where: str | None
    files: int
    bytes: int
    below: int
    hot: bool = False
    max_files: int | None = None
    unscoped_deletes: bool = False


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What to rewrite, in this order; manifests by partition spec. `left` are bytes for a later run."""

    rewrites: tuple[Rewrite, ...] = ()
    manifests: tuple[int, ...] = ()
    dangling: bool = False
    left: int = 0
    reasons: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.rewrites or self.manifests) or self.dangling

    def as_json(self) -> dict[str, Any]:
        """Plain JSON for `--dry-run` and metadata."""
        return {
            "rewrites": [
                {
                    "partitions": len(each.partitions),
                    "first": each.partitions[0],
                    "files": each.files,
                    "bytes": each.bytes,
                    "hot": each.hot,
                }
                for each in self.rewrites
            ],
            "manifests": bool(self.manifests),
            "dangling_deletes": self.dangling,
            "bytes_left": self.left,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class _Need:
    partition: Partition
    files: tuple[int, ...]
    below: int
    hot: bool


def plan_compaction(layout: Layout, limits: Compaction, now: datetime) -> CompactionPlan:
    """The rewrites that pay: cold partitions first, at most `max_bytes` and `COMMITS` commits."""
    needs = [need for each in layout.partitions if (need := _need(each, limits, now))]
    needs.sort(key=lambda need: (need.hot, need.below, -len(need.files), need.partition.name))
    chosen, left = _within(needs, limits)
    groups = list(_grouped(chosen, limits))
    left += sum(each.bytes for each in groups[COMMITS:])
    fragmented = _fragmented(layout)
    return CompactionPlan(
        rewrites=tuple(groups[:COMMITS]),
        manifests=layout.scattered if fragmented else (),
        dangling=_dangling(layout, limits),
        left=left,
        reasons=tuple(_reasons(layout, limits, needs, now, fragmented=fragmented)),
    )


def is_hot(partition: Partition, now: datetime) -> bool:
    """Written to within `HOT_FOR`."""
    return partition.written_at is not None and now - partition.written_at < HOT_FOR


def _need(each: Partition, limits: Compaction, now: datetime) -> _Need | None:
    target, hot = limits.target_file_size, is_hot(each, now)
    if each.sizes and each.delete_ratio > limits.max_delete_ratio:
        return _Need(each, each.sizes, int(target * SMALL), hot)
    enough = limits.min_input_files * (HOT_FACTOR if hot else 1)
    tiers = [target // share for share in TIERS] if hot else []
    for tier in (*tiers, int(target * SMALL)):
        small = each.below(tier)
        if len(small) >= enough:
            return _Need(each, small, tier, hot)
    return None


def _within(needs: Sequence[_Need], limits: Compaction) -> tuple[list[tuple[_Need, int | None]], int]:
    """As much as `max_bytes` allows; a partition that is larger alone is begun with as many files as fit."""
    room, left, begun = limits.max_bytes, 0, False
    chosen: list[tuple[_Need, int | None]] = []
    for need in needs:
        size = sum(need.files)
        if size <= room:
            chosen.append((need, None))
            room -= size
            continue
        part = None if begun else _begun(need, room, limits)
        if part and len(part.files) >= limits.min_input_files:
            chosen.append((part, len(part.files)))
            room, begun = 0, True
            left += size - sum(part.files)
        else:
            left += size
    return chosen, left


def _begun(need: _Need, room: int, limits: Compaction) -> _Need:
    """As many of its files as surely fit, whichever of those below a size are taken.

    The size leaves out what earlier runs have merged, or those files alone would fill the room for ever. Where
    deletes are the need, files of any size may be taken.
    """
    heavy = need.partition.delete_ratio > limits.max_delete_ratio
    sizes = sorted(need.files)
    totals = list(accumulate(sizes, initial=0))
    ends = list(accumulate(len(list(alike)) for _, alike in groupby(sizes)))
    fitting = [(bisect_left(totals, totals[end] - room), end) for end in (ends[-1:] if heavy else ends)]
    begin, end = max(fitting, key=lambda each: each[1] - each[0])
    below = need.below if heavy or begin == end else sizes[end - 1] + 1
    return _Need(need.partition, tuple(sizes[begin:end]), below, need.hot)


def _grouped(chosen: Sequence[tuple[_Need, int | None]], limits: Compaction) -> Iterable[Rewrite]:
    """Neighbours of one kind share a commit, up to a quarter of what a run may rewrite."""
    portion = max(limits.max_bytes // COMMITS, limits.target_file_size)
    for (hot, below, most), alike in groupby(chosen, key=lambda c: (c[0].hot, c[0].below, c[1])):
        batch: list[_Need] = []
        for need, _ in alike:
            full = len(batch) >= PARTITIONS_AT_ONCE or sum(sum(n.files) for n in (*batch, need)) > portion
            if batch and full:
                yield _rewrite(batch, below, most, hot=hot)
                batch = []
            batch.append(need)
        yield _rewrite(batch, below, most, hot=hot)


def _rewrite(needs: Sequence[_Need], below: int, most: int | None, *, hot: bool) -> Rewrite:
    wheres = [need.partition.where for need in needs]
    known = [where for where in wheres if where]
    return Rewrite(
        partitions=tuple(need.partition.name for need in needs),
        where=" OR ".join(f"({where})" for where in known) if len(known) == len(wheres) else None,
        files=sum(len(need.files) for need in needs),
        bytes=sum(sum(need.files) for need in needs),
        below=below,
        hot=hot,
        max_files=most,
        unscoped_deletes=any(not n.partition.scoped and n.partition.deleted_rows for n in needs),
    )


def scattered(sizes: Mapping[tuple[int, int], Sequence[int]]) -> tuple[int, ...]:
    """The partition specs, of (spec, content) -> the sizes of its manifests, where some kind's are many and small."""
    return tuple(
        sorted({spec for (spec, _), each in sizes.items() if len(each) > 1 and _tiny(len(each), sum(each))})
    )


def _tiny(manifests: int, size: int) -> bool:
    """Each far smaller than it could be."""
    return size < manifests * MANIFEST_BYTES / 4


def _fragmented(layout: Layout) -> bool:
    """So many tiny manifests, and not each the only one of its spec."""
    many = layout.manifests >= MANY_MANIFESTS
    return many and _tiny(layout.manifests, layout.manifest_bytes) and bool(layout.scattered)


def _dangling(layout: Layout, limits: Compaction) -> bool:
    """So many that a count of the live rows is far off, or that reading all deletes again is worth the while."""
    files, rows = len(layout.dangling), sum(layout.dangling)
    return rows > limits.max_delete_ratio * layout.rows or files > max(MANY_DANGLING, layout.delete_files)


def _reasons(
    layout: Layout, limits: Compaction, needs: Sequence[_Need], now: datetime, *, fragmented: bool
) -> Iterable[str]:
    heavy = sum(need.partition.delete_ratio > limits.max_delete_ratio for need in needs)
    if heavy:
        yield f"{counted(heavy, 'partition')} with more than {limits.max_delete_ratio:.0%} of their rows deleted"
    if len(needs) > heavy:
        cold, hot = (sum(n.hot is h for n in needs) for h in (False, True))
        enough = f"with enough small files (min_input_files {limits.min_input_files})"
        yield f"{counted(cold, 'cold partition')} and {hot} hot {enough}"
    if fragmented:
        yield f"{layout.manifests} manifests hold {layout.manifest_bytes} bytes"
    if _dangling(layout, limits):
        yield f"{counted(len(layout.dangling), 'delete file')} of data files that are gone"
    if not needs:
        most = max((len(p.below(limits.target_file_size * SMALL)) for p in layout.partitions), default=0)
        hot = sum(is_hot(each, now) for each in layout.partitions)
        files, places = counted(layout.data_files, "file"), counted(len(layout.partitions), "partition")
        yield (
            f"{files} in {places}, {hot} of them hot; at most {counted(most, 'small file')} in one "
            f"(min_input_files {limits.min_input_files}, {HOT_FACTOR} times as many in a hot one); "
            f"{layout.delete_ratio:.1%} of rows deleted"
        )
