"""The append rows of a merge, and deletes among them that lack a part of the key.

Ingest lets no such delete in: those were read with another `key`, for other `upsert.keys`, or without `upsert`.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger import merge_filters
from tidemark.domain.ledger.merge_plan import Unmerged
from tidemark.engine.access.lake import Lake
from tidemark.engine.merge.event import DELETE, KIND, NEW, PLACE
from tidemark.engine.merge.missing_rows import read_again
from tidemark.engine.merge.pair import Pair
from tidemark.engine.merge.rows import events, null_key
from tidemark.engine.merge.upsert_columns import UpsertColumns


class Keyless(NamedTuple):
    """Deletes of one Kafka partition that lack a part of the key: how many, and the offsets of the first and last."""

    epoch: int
    partition: int
    n: int
    first: int
    last: int


def append_rows(lake: Lake, pair: Pair, condition: str, snapshot: int | None = None) -> DataFrame:
    """Rows of the append table as the pair saw it, or as of another of its snapshots."""
    pinned = snapshot or (pair.append.head if pair.append else None)
    reader = lake.spark().read.option("versionAsOf", str(pinned))
    return reader.table(lake.identifier(pair.current.append.table)).where(condition)


def keyless(lake: Lake, pair: Pair, shape: UpsertColumns, rows: Unmerged) -> list[Keyless]:
    """The deletes without a whole key among `rows`, but for those that someone accepted to be missing."""
    condition = merge_filters.unmerged(rows)
    accepted = pair.state.merged.no_keys if pair.state.merged else None
    if accepted:
        condition += f" AND NOT {merge_filters.up_to_end(Unmerged(0, {}, *accepted))}"
    came = events(append_rows(lake, pair, condition), shape, pair.columns, F.lit(NEW))
    at = F.col(PLACE)
    found = (
        came.where((F.col(KIND) == DELETE) & null_key(shape.current))
        .groupBy(at["epoch"].alias("epoch"), at["partition"].alias("partition"))
        .agg(F.count("*"), F.min(at["offset"]), F.max(at["offset"]))
    )
    return sorted(Keyless(*row) for row in found.collect())


def require_keys(lake: Lake, pair: Pair, shape: UpsertColumns, rows: Unmerged) -> None:
    """Require that every delete among `rows` names its row.

    Raises:
        Stopped: `misconfigured`, with the replays that give them their keys.
    """
    found = keyless(lake, pair, shape, rows)
    if not found or pair.append is None:
        return
    append, epoch = pair.current.append.table, pair.append.ledger.epoch
    earlier = sum(each.n for each in found if each.epoch != epoch)
    gone = f" {earlier} of them are of earlier epochs, whose topic is gone." if earlier else ""
    raise Stopped(
        "misconfigured",
        pair.current.contract.table,
        f"{sum(each.n for each in found)} deletes of {append} lack a part of the key "
        f"({', '.join(pair.current.upsert.keys)}): they were read with another `key`, for other `upsert.keys` or "
        f"without `upsert`, and the keys that they deleted would be there.{gone} "
        + read_again(
            pair, {each.partition: (each.first, each.last + 1) for each in found if each.epoch == epoch}
        ),
    )
