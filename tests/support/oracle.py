"""The oracle: an independent count of where every offset went.

Kafka is read by a read_committed consumer of its own, the table and its quarantine by PyIceberg and by Spark, the
ledgers as plain JSON out of the snapshot summaries. Nothing of the product is imported.
"""

import itertools
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyspark.sql import SparkSession

LEDGER = "tidemark.ledger"
EMPTY = np.empty(0, dtype=np.int64)


@dataclass
class Partition:
    """What a read_committed consumer gets of one partition, from the log start to the last stable offset."""

    start: int
    end: int
    values: np.ndarray = field(default_factory=lambda: EMPTY)
    tombstones: np.ndarray = field(default_factory=lambda: EMPTY)


def read_kafka(bootstrap: str, topic: str) -> dict[int, Partition]:
    """Every committed record of `topic`, as offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        ids = sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
        found: dict[int, Partition] = {}
        for each in ids:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=20)
            found[each] = Partition(low, high)
        consumer.assign([TopicPartition(topic, p, found[p].start) for p in ids])
        values: dict[int, list[int]] = {p: [] for p in ids}
        tombstones: dict[int, list[int]] = {p: [] for p in ids}
        unread = set(ids)
        deadline = time.monotonic() + 120
        while unread:
            assert time.monotonic() < deadline, (
                f"the oracle did not reach the end of {topic} within two minutes"
            )
            for message in consumer.consume(10_000, timeout=0.1):
                fault = message.error()
                if fault is None:
                    into = tombstones if message.value() is None else values
                    into[message.partition()].append(message.offset())
                elif fault.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                    found[message.partition()].end = message.offset()
                else:
                    raise AssertionError(f"the oracle cannot read {topic}: {fault.str()}")
    finally:
        consumer.close()
    for p in ids:
        found[p].values = np.array(values[p], dtype=np.int64)
        found[p].tombstones = np.array(tombstones[p], dtype=np.int64)
    return found


def load(catalog: Catalog, table: str) -> Table | None:
    """The table as it is now, None when it does not exist."""
    try:
        return catalog.load_table(table)
    except NoSuchTableError:
        return None


def ledgers(table: Table) -> list[dict[str, Any]]:
    """The ledgers of main's ancestors, oldest first."""
    snapshots = {s.snapshot_id: s for s in table.metadata.snapshots}
    found: list[dict[str, Any]] = []
    at = table.metadata.current_snapshot_id
    while at is not None and at in snapshots:
        text = snapshots[at].summary and snapshots[at].summary.additional_properties.get(LEDGER)
        if text:
            found.insert(0, {**json.loads(text), "snapshot_id": at})
        at = snapshots[at].parent_snapshot_id
    return found


def rows_by_pyiceberg(table: Table) -> pa.Table:
    """epoch, partition, offset, tombstone of every row on main."""
    kafka = table.scan(selected_fields=("_kafka",)).to_arrow()["_kafka"].combine_chunks()
    if isinstance(kafka, pa.ChunkedArray):
        kafka = pa.concat_arrays(kafka.chunks) if kafka.num_chunks else pa.array([], type=kafka.type)
    names = ("epoch", "partition", "offset", "tombstone")
    return pa.table({name: kafka.field(name) for name in names})


def count_by_pyiceberg(table: Table) -> dict[tuple[int, int], tuple[int, int]]:
    """(epoch, partition) -> (rows, sum of offsets)."""
    rows = rows_by_pyiceberg(table)
    if not rows.num_rows:
        return {}
    grouped = (
        rows.group_by(["epoch", "partition"]).aggregate([("offset", "count"), ("offset", "sum")]).to_pylist()
    )
    return {(g["epoch"], g["partition"]): (g["offset_count"], g["offset_sum"]) for g in grouped}


def count_by_spark(spark: SparkSession, table: str) -> dict[tuple[int, int], tuple[int, int]]:
    """The same, read by Spark."""
    rows = spark.sql(
        "SELECT _kafka.epoch AS epoch, _kafka.partition AS p, count(*) AS n, sum(_kafka.offset) AS offsets "
        f"FROM {table} GROUP BY 1, 2"
    ).collect()
    return {(r["epoch"], r["p"]): (r["n"], r["offsets"]) for r in rows}


def quarantined_by_pyiceberg(catalog: Catalog, table: str) -> pa.Table:
    """epoch, partition, offset, cause of every unresolved quarantine row."""
    found = load(catalog, f"{table}_quarantine")
    names = ("epoch", "partition", "offset", "cause")
    if found is None:
        return pa.table(
            {name: pa.array([], pa.string() if name == "cause" else pa.int64()) for name in names}
        )
    return found.scan(row_filter="resolved_at is null", selected_fields=names).to_arrow()


@dataclass
class Verdict:
    """The findings of one look, per partition, as sentences."""

    table: str
    faults: list[str] = field(default_factory=list)
    rows: int = 0
    quarantined: int = 0
    tombstones: int = 0

    def expect(self, what: str, offsets: Iterable[int], partition: int) -> None:
        offsets = sorted({int(o) for o in offsets})
        if offsets:
            self.faults.append(f"partition {partition}: {what}: {len(offsets)} offsets: {_runs(offsets)}")


def examine(
    catalog: Catalog,
    bootstrap: str,
    topic: str,
    table: str,
    *,
    caught_up: bool = True,
    upsert: bool = False,
    kafka: Mapping[int, Partition] | None = None,
) -> Verdict:
    """Offsets in Kafka against rows, quarantine and counted tombstones, for the ledger's epoch.

    `kafka` replaces the look at the topic, for one that has been compacted or cut since.
    """
    verdict = Verdict(table)
    loaded = load(catalog, table)
    if loaded is None or not (history := ledgers(loaded)):
        verdict.faults.append("the table or its ledger is not there")
        return verdict
    last = history[-1]
    offered = kafka if kafka is not None else read_kafka(bootstrap, topic)
    rows = _of_epoch(rows_by_pyiceberg(loaded), last["epoch"])
    quarantine = _of_epoch(quarantined_by_pyiceberg(catalog, table), last["epoch"])
    verdict.rows, verdict.quarantined = rows.num_rows, quarantine.num_rows
    for p, there in sorted(offered.items()):
        _one_partition(
            verdict,
            p,
            there,
            _offsets(rows, p),
            _offsets(quarantine, p),
            last,
            upsert=upsert,
            caught_up=caught_up,
        )
    unknown = ({*_column(rows, "partition")} | {*_column(quarantine, "partition")}) - set(offered)
    if unknown:
        verdict.faults.append(f"rows of partitions that Kafka does not have: {sorted(map(int, unknown))}")
    verdict.faults += _broken_chain(history)
    return verdict


def _one_partition(
    verdict: Verdict,
    p: int,
    there: Partition,
    rows: np.ndarray,
    quarantine: np.ndarray,
    ledger: Mapping[str, Any],
    *,
    upsert: bool,
    caught_up: bool,
) -> None:
    start, upto = int(ledger["start"].get(str(p), 0)), int(ledger["next"].get(str(p), 0))
    if caught_up and upto < there.end:
        verdict.faults.append(
            f"partition {p}: committed up to {upto}, Kafka's last stable offset is {there.end}"
        )
    gaps = [
        (g["start"], g["end"])
        for g in ledger["gaps"]
        if g["partition"] == p and g["epoch"] == ledger["epoch"]
    ]
    values = _between(there.values, start, upto, gaps)
    tombstones = _between(there.tombstones, start, upto, gaps)
    if upsert:
        values, tombstones = np.sort(np.concatenate([values, tombstones])), EMPTY
    verdict.tombstones += len(tombstones)
    kept = np.concatenate([rows, quarantine])
    verdict.expect("neither in the table nor in the quarantine", np.setdiff1d(values, kept), p)
    verdict.expect("twice in the table", _twice(rows), p)
    verdict.expect("twice in the quarantine", _twice(quarantine), p)
    verdict.expect("both in the table and in the quarantine", np.intersect1d(rows, quarantine), p)
    verdict.expect("kept, but never committed in Kafka", np.setdiff1d(kept, values), p)
    counts = ledger["totals"].get(str(p), [0, 0, 0, 0, 0])
    counted = {"read": counts[0], "written": counts[1], "quarantined": counts[2], "tombstones": counts[3]}
    truth = {
        "read": len(values) + len(tombstones),
        "written": len(rows),
        "quarantined": len(quarantine),
        "tombstones": len(tombstones),
    }
    if counted != truth:
        verdict.faults.append(f"partition {p}: the ledger counts {counted}, but there are {truth}")


def _broken_chain(history: list[dict[str, Any]]) -> list[str]:
    """Within an epoch each batch begins where the one before ended, and the totals are the sums of the batches."""
    faults: list[str] = []
    epoch = history[-1]["epoch"]
    of_epoch = [each for each in history if each["epoch"] == epoch]
    for before, after in itertools.pairwise(of_epoch):
        if after["kind"] != "append":
            continue
        for p, begin in after["from"].items():
            ended = before["next"].get(p, 0)
            if begin != ended:
                faults.append(
                    f"partition {p}: batch {after['batch_id']} begins at {begin}, the one before ended at {ended}"
                )
        for p in sorted({*before["totals"], *after["counts"], *after["totals"]}):
            was, more, now = (
                each.get(p, [0] * 5) for each in (before["totals"], after["counts"], after["totals"])
            )
            if now != [a + b for a, b in zip(was, more, strict=True)]:
                faults.append(
                    f"partition {p}: batch {after['batch_id']} makes {now} of {was} by counting {more}"
                )
    return faults


def exactly_once(catalog: Catalog, bootstrap: str, topic: str, table: str, **how: Any) -> Verdict:
    """Assert the first promise; returns what was counted."""
    verdict = examine(catalog, bootstrap, topic, table, **how)
    if verdict.faults:
        raise AssertionError(f"{table} does not hold {topic} exactly once:\n  " + "\n  ".join(verdict.faults))
    return verdict


def files_are_sound(table: Table) -> int:
    """Assert that no path was written twice, that all lie under the table, and that manifests can prune; returns files.

    Looks at every snapshot that the metadata still has, attempt branches included (apache/iceberg#8609).
    """
    written: dict[str, set[int]] = {}
    partitioned = not table.spec().is_unpartitioned()
    home = _path(table.location()).rstrip("/") + "/"
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status != ManifestEntryStatus.ADDED:
                    continue
                data = entry.data_file
                written.setdefault(data.file_path, set()).add(int(entry.snapshot_id or snapshot.snapshot_id))
                assert _path(data.file_path).startswith(home), f"outside of the table: {data.file_path}"
                if data.content != DataFileContent.DATA:
                    continue
                assert data.record_count > 0, f"an empty data file: {data.file_path}"
                assert data.value_counts, f"no value counts: {data.file_path}"
                assert data.lower_bounds, f"no lower bounds: {data.file_path}"
                assert data.upper_bounds, f"no upper bounds: {data.file_path}"
                if partitioned:
                    assert len(data.partition) > 0, f"no partition values: {data.file_path}"
    twice = {path: ids for path, ids in written.items() if len(ids) > 1}
    assert not twice, f"paths that more than one commit wrote: {twice}"
    return len(written)


def _path(uri: str) -> str:
    """Java writes file:/a where others write file:///a."""
    return urlparse(uri).path


def _of_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    return rows.filter(pa.compute.equal(rows["epoch"], epoch)) if rows.num_rows else rows


def _column(rows: pa.Table, name: str) -> np.ndarray:
    return rows[name].to_numpy(zero_copy_only=False).astype(np.int64) if rows.num_rows else EMPTY


def _offsets(rows: pa.Table, partition: int) -> np.ndarray:
    return _column(rows, "offset")[_column(rows, "partition") == partition] if rows.num_rows else EMPTY


def _between(offsets: np.ndarray, start: int, end: int, gaps: list[tuple[int, int]]) -> np.ndarray:
    kept = offsets[(offsets >= start) & (offsets < end)]
    for a, b in gaps:
        kept = kept[(kept < a) | (kept >= b)]
    return kept


def _twice(offsets: np.ndarray) -> list[int]:
    found, counts = np.unique(offsets, return_counts=True)
    return [int(o) for o in found[counts > 1]]


def _runs(offsets: list[int], most: int = 12) -> str:
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    told = [f"{a}" if a == b else f"{a}–{b}" for a, b in runs[:most]]
    return ", ".join(told) + (f" and {len(runs) - most} runs more" if len(runs) > most else "")
