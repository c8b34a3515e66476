"""What the checks of assets/checks/kafka.py find: figures that the UI plots, and words that say what to do."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from assets.checks.repeated import newest
from assets.names import HEADROOM, KAFKA_RECONCILIATION, NEWEST, holds_lane, table_key
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked
from tidemark.engine.look.headroom import kept_for
from tidemark.engine.look.status import Facts, waiting_records
from tidemark.engine.look.tables import unread
from tidemark.engine.verify.reconcile import Reconciliation, reconcile

Kept = Mapping[tuple[str, str], float | None]
"""Retention in seconds, None for ever, by cluster and topic; one that was not told is absent."""
COMPARED_AT = "compared_at"
"""When a whole reconciliation was made, which may be said again long after; not that of a part."""
SOUND_FOR = 6 * 3600.0
"""Seconds for which what was found sound holds for scheduled compactions, and for runs that a lane waits for."""
WARN, FAIL = 0.25, 0.05
"""Shares of a topic's retention."""


def judged_headrooms(lake: Lake, contracts: Sequence[Contract]) -> Iterator[dg.AssetCheckEvaluation]:
    """One per table. What cannot be judged is a warning.

    Nothing waits, or nothing is ever deleted: passed.
    """
    found = unread(lake, contracts)
    kept = _kept(lake, [facts.contract for facts in found if waiting_records(facts)])
    for facts in found:
        yield dg.AssetCheckEvaluation(
            asset_key=table_key(facts.contract.table), check_name=HEADROOM, **_judged(facts, kept)
        )


def _kept(lake: Lake, behind: Sequence[Contract]) -> Kept:
    """One question to each cluster, for the topics of tables that are behind."""
    topics: dict[str, set[str]] = defaultdict(set)
    for contract in behind:
        topics[contract.cluster].add(contract.topic)
    kept: dict[tuple[str, str], float | None] = {}
    for cluster, names in topics.items():
        answer, _ = asked(lambda: kept_for(lake.platform.kafka[cluster], sorted(names)))  # noqa: B023 - called at once
        kept |= {(cluster, topic): limit for topic, limit in (answer or {}).items()}
    return kept


def _judged(facts: Facts, kept: Kept) -> dict[str, Any]:
    if fault := _unknown(facts, kept):
        return {
            "passed": False,
            "severity": dg.AssetCheckSeverity.WARN,
            "description": f"it cannot be judged: {fault}",
            "metadata": {"next": f"tidemark status {facts.contract.table}"},
        }
    left, limit = facts.headroom, kept.get((facts.contract.cluster, facts.contract.topic))
    share, metadata = 1.0, dict[str, Any]()
    if left is not None and limit is not None:
        share = left / limit if limit else 0.0
        metadata["headroom_seconds"] = round(left)
    metadata["share_of_retention"] = round(share, 4)
    if share < WARN:
        metadata["next"] = f"tidemark status {facts.contract.table}"
    return {
        "passed": share >= WARN,
        "severity": dg.AssetCheckSeverity.ERROR if share < FAIL else dg.AssetCheckSeverity.WARN,
        "description": _left(left),
        "metadata": metadata,
    }


def _unknown(facts: Facts, kept: Kept) -> str | None:
    """Why nobody can tell how long Kafka keeps what waits."""
    topic = facts.contract.cluster, facts.contract.topic
    if fault := facts.topic_fault or facts.table_fault:
        return fault
    if facts.topic is None:
        return "topic_missing"
    if not waiting_records(facts):
        return None
    if topic not in kept:
        return f"Kafka does not say how long it keeps {facts.contract.topic}"
    if kept[topic] is not None and facts.headroom is None:
        return "the time of the oldest unread record was not read"
    return None


def reconciliations(
    lake: Lake, context: dg.AssetCheckExecutionContext, contracts: Sequence[Contract]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The reconciliation of each table. While a lane waits, all that are due read what one reads otherwise."""
    if not holds_lane(context.run):
        yield from (reconciled(lake, each) for each in contracts)
        return
    known = {each.table: sound_lately(context.instance, each) for each in contracts}
    due = [table for table, found in known.items() if found is None]
    for each in contracts:
        yield known[each.table] or reconciled_among(lake, context.instance, each, len(due))


def sound_lately(instance: dg.DagsterInstance, contract: Contract) -> dg.AssetCheckEvaluation | None:
    """That Kafka and the table, compared not long ago, held the same; it tells when that was."""
    found = next(newest(instance, contract, [KAFKA_RECONCILIATION]), None)
    at = found.metadata.get(COMPARED_AT) if found and found.passed else None
    return found if isinstance(at, dg.TimestampMetadataValue) and time.time() - at.value < SOUND_FOR else None


def reconciled_among(
    lake: Lake, instance: dg.DagsterInstance, contract: Contract, tables: int
) -> dg.AssetCheckEvaluation:
    """The reconciliation of a table that shares the offsets of one with others. One that was red is looked at whole."""
    last = next(newest(instance, contract, [KAFKA_RECONCILIATION]), None)
    return reconciled(lake, contract, NEWEST if last and not last.passed else NEWEST // tables)


def reconciled(lake: Lake, contract: Contract, offsets: int = NEWEST) -> dg.AssetCheckEvaluation:
    """The reconciliation of the newest offsets of one table. Never raises for a service."""
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.table),
        check_name=KAFKA_RECONCILIATION,
        **_reconciled(lake, contract, offsets),
    )


def _reconciled(lake: Lake, contract: Contract, offsets: int) -> dict[str, Any]:
    try:
        found = reconcile(lake, contract, newest=offsets)
    except Refused:
        return {"passed": True, "description": "the table was never loaded: there is nothing to compare"}
    except TidemarkError as error:
        return {"passed": False, "severity": dg.AssetCheckSeverity.WARN, "description": str(error)}
    return {
        "passed": found.sound,
        "severity": dg.AssetCheckSeverity.ERROR,
        "description": "every record is in exactly one place" if found.sound else _apart(found),
        "metadata": _figures(found)
        | ({COMPARED_AT: dg.MetadataValue.timestamp(time.time())} if offsets == NEWEST else {})
        | ({} if found.sound else {"next": f"tidemark reconcile {contract.table}"}),
    }


def _figures(found: Reconciliation) -> dict[str, Any]:
    gaps = sum(b - a for each in found.counts for a, b in each.gaps)
    twice = sum(b - a for each in found.counts for a, b in each.duplicates)
    return {
        "kafka_records": found.records,
        "rows": sum(each.rows for each in found.counts),
        "quarantined": sum(each.quarantined for each in found.counts),
        "gaps": gaps,
        "duplicates": twice,
        "rows_beyond_ledger": found.beyond,
        "seconds": round(found.seconds, 2),
    }


def _apart(found: Reconciliation) -> str:
    counted = _figures(found)
    unknown = sum(b - a for each in found.counts for a, b in each.unknown) if found.never_committed else 0
    never = f", {unknown} rows have no record in Kafka" if unknown else ""
    return (
        f"{counted['gaps']} offsets of Kafka are in no place, {counted['duplicates']} are there twice, "
        f"{counted['rows_beyond_ledger']} rows lie beyond the ledger{never}"
    )


def _left(seconds: float | None) -> str:
    if seconds is None:
        return "nothing waits, or Kafka keeps it for ever"
    return f"Kafka may delete the oldest unread record in {seconds / 3600:.1f} h"
