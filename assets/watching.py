"""What the checks of assets/watch.py find: figures that the UI plots, and words that say what to do."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets.names import table_key
from assets.watch import HEADROOM, KAFKA_RECONCILIATION, NEWEST
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.look.headroom import kept_for
from tidemark.engine.look.tables import asked, look
from tidemark.engine.verify.reconcile import Reconciliation, reconcile

WARN, FAIL = 0.25, 0.05
"""Shares of a topic's retention."""


def judge_headroom(resource: LakeResource, contracts: Sequence[Contract]) -> Iterator[dg.AssetCheckResult]:
    """One result per table; nothing waits or nothing is ever deleted: passed. What cannot be asked is a warning."""
    with resource.open() as lake:
        for facts in look(lake, contracts, {}):
            contract, left = facts.contract, facts.headroom
            if fault := facts.topic_fault or facts.table_fault:
                yield dg.AssetCheckResult(
                    asset_key=table_key(contract.table),
                    check_name=HEADROOM,
                    passed=False,
                    severity=dg.AssetCheckSeverity.WARN,
                    description=f"it cannot be judged: {fault}",
                    metadata={"next": f"tidemark status {contract.table}"},
                )
                continue
            kept, _ = asked(lambda: kept_for(lake.platform.kafka[contract.cluster], [contract.topic]))  # noqa: B023
            limit = (kept or {}).get(contract.topic)
            share = 1.0 if left is None or not limit else left / limit
            metadata: dict[str, Any] = {"share_of_retention": round(share, 4)}
            if left is not None:
                metadata["headroom_seconds"] = round(left)
            if share < WARN:
                metadata["next"] = f"tidemark status {contract.table}"
            yield dg.AssetCheckResult(
                asset_key=table_key(contract.table),
                check_name=HEADROOM,
                passed=share >= WARN,
                severity=dg.AssetCheckSeverity.ERROR if share < FAIL else dg.AssetCheckSeverity.WARN,
                description=_left(left),
                metadata=metadata,
            )


def reconciled(lake: Lake, contract: Contract) -> dict[str, Any]:
    """The reconciliation of one table as arguments of a result or of an evaluation. Never raises for a service."""
    what = {"asset_key": table_key(contract.table), "check_name": KAFKA_RECONCILIATION}
    try:
        found = reconcile(lake, contract, newest=NEWEST)
    except Refused:
        return {
            **what,
            "passed": True,
            "description": "the table was never loaded: there is nothing to compare",
        }
    except TidemarkError as error:
        return {**what, "passed": False, "severity": dg.AssetCheckSeverity.WARN, "description": str(error)}
    return {
        **what,
        "passed": found.sound,
        "severity": dg.AssetCheckSeverity.ERROR,
        "description": "every record is in exactly one place" if found.sound else _apart(found),
        "metadata": _figures(found)
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
    return (
        f"{counted['gaps']} offsets of Kafka are in no place, {counted['duplicates']} are there twice, "
        f"{counted['rows_beyond_ledger']} rows lie beyond the ledger"
    )


def _left(seconds: float | None) -> str:
    if seconds is None:
        return "nothing waits, or Kafka keeps it for ever"
    return f"Kafka may delete the oldest unread record in {seconds / 3600:.1f} h"
