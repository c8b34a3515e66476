"""What is done with the keys of a merge, counted: before it is written, or in the pass that writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.ledger.merge_ledger import Changes
from tidemark.engine.ingest.observe import Observed
from tidemark.engine.merge.batch import Batch
from tidemark.engine.merge.event import DELETE, KIND, NEW, ORIGIN, UPSERT
from tidemark.engine.merge.orderless import OTHERS

_NONE_STORED = {"stored": False, "marked": False, "others": 0}
GROUPS: Mapping[str, Mapping[str, Any]] = {
    f"{action or 'none'}_{kind}_{origin}": {"action": action, KIND: kind, ORIGIN: origin, **_NONE_STORED}
    for action, kind, origin in product(("insert", None), (UPSERT, DELETE), (NEW, "other"))
}
"""Winners that are alike, none of which is stored, by a name."""


@dataclass(slots=True)
class Tally:
    """Keys by what is done with them, and events by what became of them."""

    insert: int = 0
    update: int = 0
    delete: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0
    stale: int = 0
    to_remember: int = 0

    def add(self, group: Mapping[str, Any]) -> None:
        """Count winners that are alike."""
        keys, new, gone = group["n"], group[ORIGIN] == NEW, group[KIND] == DELETE
        action = group["action"]
        self.to_remember += group["others"]
        if action:
            setattr(self, action, getattr(self, action) + keys)
        if not new:
            self.stale += group["news"]
            self.deleted += keys if action == "delete" else 0
        elif not gone:
            self.inserted += keys if action == "insert" else 0
            self.updated += keys if action == "update" else 0
        else:
            self.to_remember += keys
            found = keys if group["stored"] and not group["marked"] else 0
            self.deleted += found
            self.absent += keys - found

    def changes(self, batch: Batch, erased: int) -> Changes:
        """As the ledger keeps them; what is left over lost to a newer event of the same batch."""
        told = self.inserted + self.updated + self.deleted + self.absent + self.stale
        rest = batch.read - told - batch.null_key - batch.truncates
        return Changes(
            read=batch.read,
            inserted=self.inserted,
            updated=self.updated,
            deleted=self.deleted + erased,
            absent=self.absent,
            stale=self.stale,
            superseded=max(0, rest),
            null_key=batch.null_key,
            truncates=batch.truncates,
        )


def tally_of(winners: DataFrame, *, others: bool) -> Tally:
    """By a pass over the winners; `others`: with the places that must be remembered beside them."""
    tally = Tally()
    groups = winners.groupBy("action", KIND, ORIGIN, "stored", "marked")
    more = F.sum(F.size(OTHERS)) if others else F.lit(0)
    counts = F.count("*").alias("n"), F.sum("news").alias("news"), more.alias("others")
    for group in groups.agg(*counts).collect():
        tally.add(group.asDict())
    return tally


def with_counts(winners: DataFrame, observation: Observed) -> DataFrame:
    """The winners, counted as they pass: of a table that holds no row, where all that can be done is an insert."""
    metrics = [F.count("*").alias("keys")]
    for name, group in GROUPS.items():
        alike = F.col("action").eqNullSafe(F.lit(group["action"]).cast("string")) & ~F.col("stored")
        alike &= ((F.col(ORIGIN) == NEW) == (group[ORIGIN] == NEW)) & (F.col(KIND) == group[KIND])
        metrics.append(F.count(F.when(alike, 1)).alias(f"n_{name}"))
        metrics.append(F.sum(F.when(alike, F.col("news"))).alias(f"news_{name}"))
    return winners.observe(cast("Any", observation), *metrics)


def tally_from(observation: Observed, events: int, rows: int) -> Tally | None:
    """What has passed; None unless it is all of so many events, and so many rows were written of it.

    Counts may be lost on their way, and a task that ran twice has counted twice.
    """
    found, tally, keys, news = observation.get, Tally(), 0, 0
    for name, group in GROUPS.items():
        alike = {"n": found.get(f"n_{name}", 0), "news": found.get(f"news_{name}") or 0}
        keys, news = keys + alike["n"], news + alike["news"]
        tally.add({**group, **alike})
    is_whole = keys == found.get("keys") and news == events and tally.insert == rows
    return tally if is_whole else None
