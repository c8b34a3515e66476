"""Where to read on in a topic that now ends before the offset that was read, or has other records there by now.

Up to where it was cut off the log is the one that was read: the newest record that the table has as Kafka shows it, by
time and key, is before that place, whatever epoch it was read in.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.engine.access.conditions import within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState, load_written
from tidemark.engine.ingest.read import read_ranges

_PLACE = ("partition", "offset")
_RECORD = (*_PLACE, "timestamp", "key")


def unread_from(
    lake: Lake, contract: Contract, state: TableState, ledger: Ledger, topic: Topic
) -> dict[int, int]:
    """The first offset per partition that the table has not read of the topic as it is now; never one too late.

    A partition that still has all, as far as the table tells, goes on where the ledger ends. From the end backwards, in
    windows that double, for mostly little is lost; where no record is the one that was read, from the log start.
    """
    start = {p: o for p, o in topic.log_start.items() if p not in ledger.next}
    upto = {p: min(o, topic.end[p]) for p, o in ledger.next.items()}
    changed = {p for p, o in ledger.next.items() if topic.high_watermark[p] < o}
    size = contract.ingest.max_records
    while windows := _before(upto, topic, size):
        newest = _newest(lake, contract, state, windows)
        for p, window in windows.items():
            known, same = newest.get(p, (None, None))
            if same is not None:
                start[p] = same + 1 if p in changed or known != same else ledger.next[p]
                del upto[p]
            else:
                upto[p] = window.start
                changed |= {p} if known is not None else set()
        size *= 2
    return start | {p: topic.log_start[p] if p in changed else ledger.next[p] for p in upto}


def _before(upto: Mapping[int, int], topic: Topic, size: int) -> dict[int, OffsetRange]:
    first = topic.log_start
    return {p: OffsetRange(max(first[p], end - size), end) for p, end in upto.items() if end > first[p]}


def _newest(
    lake: Lake, contract: Contract, state: TableState, windows: Ranges
) -> dict[int, tuple[int, int | None]]:
    """(newest offset that table or quarantine have, newest that Kafka still shows as they do) per partition."""
    there = read_ranges(lake, contract, windows).select(*_PLACE, F.struct("timestamp", "key").alias("now"))
    then = F.struct("timestamp", "key").alias("then")
    read = _read(lake, contract, state, windows).select(*_PLACE, then)
    same = F.when(F.col("then") == F.col("now"), F.col("offset"))
    both = read.join(there, [*_PLACE], "left").groupBy("partition")
    return {p: (o, s) for p, o, s in both.agg(F.max("offset"), F.max(same)).collect()}


def _read(lake: Lake, contract: Contract, state: TableState, windows: Ranges) -> DataFrame:
    """The records that were read inside `windows`, in any epoch of the topic."""
    rows = lake.spark().sql(
        f"SELECT _kafka.* FROM {lake.identifier(contract.table)} VERSION AS OF {state.head}"
    )
    found = rows.select("epoch", *_RECORD)
    if load_written(lake.catalog, contract.quarantine_table) is not None:
        waits = lake.spark().table(lake.identifier(contract.quarantine_table))
        found = found.union(waits.select("epoch", *_RECORD))
    inside = within(windows, F.col("partition"), F.col("offset"))
    return found.where((F.col("epoch") >= 0) & inside)
