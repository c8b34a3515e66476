"""Asset checks that an ingest run evaluates itself: the contract's rules, the quarantine rate, the reconciliation.

They are told once per table and run: as events where the run selects no checks, as those of the sensors do.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.checks.freshness import freshness_evaluation
from assets.names import EVENT_TIME, QUARANTINE_RATE, RECONCILIATION, table_key
from tidemark.domain.cadence.freshness import judge
from tidemark.domain.cadence.lag import Lag
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.ledger.quality_results import RuleResult
from tidemark.domain.outcome import ASIDE, Outcome
from tidemark.domain.states import remedy

_MOST, _ENOUGH = 0.5, 10
"""Warned above this share of late rows, in runs of at least so many."""
_SEVERITY = {
    "block": dg.AssetCheckSeverity.ERROR,
    "quarantine": dg.AssetCheckSeverity.WARN,
    "warn": dg.AssetCheckSeverity.WARN,
}
_DONE = {
    "block": "nothing of the batch is published",
    "quarantine": "they are in quarantine",
    "warn": "they are published",
}
_MEND = {
    "block": "tidemark accept {table} --quarantine-batch --reason …, or change the rule",
    "quarantine": "tidemark status {table} --quarantine",
    "warn": "mend the producer, or change the rule",
}


def ingest_checks(contract: Contract) -> list[dg.AssetCheckSpec]:
    """One per rule of the contract, two that every table has, and that of the event time."""
    key, limits = table_key(contract.table), contract.quarantine
    return [
        dg.AssetCheckSpec(
            QUARANTINE_RATE,
            asset=key,
            description=f"Share of records that could not enter: warns above {limits.warn:.2%}; above "
            f"{limits.fail:.2%} nothing of a batch is published.",
        ),
        dg.AssetCheckSpec(
            RECONCILIATION,
            asset=key,
            description="Every record that was read is a row, in quarantine, a tombstone or skipped.",
        ),
        *([_event_time_spec(contract)] if contract.event_time else []),
        *(
            dg.AssetCheckSpec(rule.title, asset=key, description=f"{rule.promise}.")
            for rule in contract.quality
        ),
    ]


def evaluations(contract: Contract, outcome: Outcome) -> Iterator[dg.AssetCheckEvaluation]:
    """What a run found out about a table; nothing when it read nothing."""
    error = outcome.error or {}
    blocked = {each["rule"]: each for each in error.get("rules") or ()}
    for rule in contract.quality:
        if outcome.commits or rule.title in blocked:  # of the others a batch that was blocked says nothing
            yield _of_rule(contract, rule, outcome, blocked)
    if outcome.state == "quarantine_flood" and error.get("read"):
        yield _rate(contract, sum(error["causes"].values()), error["read"], error["causes"], published=False)
    elif outcome.commits:
        aside = outcome.causes.get(ASIDE, 0)  # neither bad nor read, as where a flood is judged
        bad, read = outcome.rows.quarantined - aside, outcome.rows.read - aside
        causes = {cause: n for cause, n in outcome.causes.items() if cause != ASIDE}
        yield _rate(contract, bad, read, causes, published=True, aside=aside)
    if outcome.commits:
        yield _reconciled(contract, outcome)
    if outcome.commits and not outcome.lag_records:
        yield _freshness(contract)
    if contract.event_time and outcome.last and outcome.last.watermark:  # none while the column cannot be had
        yield _event_time(contract, outcome, outcome.last.watermark, outcome.last.at)


def merge_evaluations(contract: Contract, outcome: Outcome) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks of an upsert table, which a run that merged evaluates: freshness where nothing waits any more."""
    if outcome.commits and not outcome.lag_records:
        yield _freshness(contract)


def unchanged_freshness(contract: Contract, since: datetime | None) -> dg.AssetCheckEvaluation:
    """Of a table that a run found level with its topic; `since`: when its newest commit was made, None before any."""
    quiet = None if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds())
    return _freshness(contract, quiet)


def _freshness(contract: Contract, quiet: float | None = 0.0) -> dg.AssetCheckEvaluation:
    """Dagster shows a check as not evaluated once its table was materialized again: so each run says it, too."""
    lag = Lag(0, 0.0)
    return freshness_evaluation(contract, judge(lag, contract.freshness, quiet=quiet, staged=False), lag)


def _event_time_spec(contract: Contract) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        EVENT_TIME,
        asset=table_key(contract.table),
        description=f"Rows whose `{contract.event_time}` lies before the watermark (its newest value so far) are late; "
        "they land as any other. Warns when most rows of a run are late.",
    )


def _event_time(
    contract: Contract, outcome: Outcome, watermark: datetime, at: datetime
) -> dg.AssetCheckEvaluation:
    written = outcome.rows.written
    share = outcome.late / max(1, written)
    metadata = {
        "rows_late": outcome.late,
        "share_late": round(share, 4),
        "rows_written": written,
        "watermark": dg.MetadataValue.timestamp(watermark),
        "watermark_age_seconds": round(max(0.0, (at - watermark).total_seconds()), 1),
    }
    return _evaluation(
        contract,
        EVENT_TIME,
        f"{outcome.late} of {written} rows lie before the watermark of {contract.event_time}",
        passed=share <= _MOST or written < _ENOUGH,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _of_rule(
    contract: Contract, rule: QualityRule, outcome: Outcome, blocked: Mapping[str, Any]
) -> dg.AssetCheckEvaluation:
    found, read = outcome.quality.get(rule.title, RuleResult.of(rule)).as_json(), outcome.rows.read
    if rule.title in blocked and (blocked[rule.title]["failed"] or not outcome.commits):
        found, read = blocked[rule.title], (outcome.error or {}).get("read", 0)
    then = found["on_failure"]  # of a batch that someone has accepted none blocks
    metadata: dict[str, Any] = {"rows_failed": found["failed"], "rows_read": read}
    if found["samples"]:
        metadata["samples"] = dg.MetadataValue.json(found["samples"])
    if found["failed"]:
        metadata["next"] = _MEND[then].format(table=contract.table)
    return _evaluation(
        contract,
        rule.title,
        _broken(rule, found, read) if found["failed"] else f"every row: {rule.expectation}",
        passed=not found["failed"],
        severity=_SEVERITY[then],
        metadata=metadata,
    )


def _rate(
    contract: Contract, bad: int, read: int, causes: Mapping[str, int], *, published: bool, aside: int = 0
) -> dg.AssetCheckEvaluation:
    share, limits = bad / max(1, read), contract.quarantine
    severity = dg.AssetCheckSeverity.ERROR if share > limits.fail else dg.AssetCheckSeverity.WARN
    metadata: dict[str, Any] = {"share": round(share, 6), "rows_quarantined": bad, "rows_read": read}
    if causes:
        metadata["causes"] = dg.MetadataValue.json(dict(causes))
    if aside:
        metadata["rows_sent_aside"] = aside
    if share > limits.warn:
        kept_there = _MEND["quarantine"].format(table=contract.table)
        metadata["next"] = kept_there if published else remedy("quarantine_flood", table=contract.table)
    listed = ", ".join(f"{cause} {n}" for cause, n in sorted(causes.items(), key=lambda each: -each[1]))
    kept = "their bytes are kept in quarantine" if published else "nothing of the batch is published"
    said = f"{bad} of {read} records could not enter{': ' if listed else ''}{listed}; {kept}"
    return _evaluation(
        contract,
        QUARANTINE_RATE,
        (said if bad else f"all of {read} records could enter")
        + (f"; {aside} more were sent aside by decision" if aside else ""),
        passed=share <= limits.warn,
        severity=severity,
        metadata=metadata,
    )


def _reconciled(contract: Contract, outcome: Outcome) -> dg.AssetCheckEvaluation:
    rows = outcome.rows
    lost = rows.read - (rows.written + rows.quarantined + rows.tombstones + rows.skipped)
    metadata: dict[str, Any] = {"rows_read": rows.read, "unaccounted": lost}
    if not rows.balanced:
        metadata["next"] = f"tidemark reconcile {contract.table}"
    return _evaluation(
        contract,
        RECONCILIATION,
        f"each of {rows.read} records is in exactly one place"
        if rows.balanced
        else f"{lost} of {rows.read} records are in no place; Kafka still holds what it was read from",
        passed=rows.balanced,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=metadata,
    )


def _broken(rule: QualityRule, found: Mapping[str, Any], read: int) -> str:
    where = ", ".join(f"{each['partition']}:{each['offset']}" for each in found["samples"])
    at = f" at {where}" if where else ""
    if rule.check == "min_rows":
        then = _DONE["block"] if found["on_failure"] == "block" else "it is published"
        return f"{rule.expectation}: {found['failed']} are missing; {then}"
    return f"{found['failed']} of {read} rows break {rule.expectation}{at}; {_DONE[found['on_failure']]}"


def _evaluation(
    contract: Contract,
    name: str,
    says: str,
    *,
    passed: bool,
    severity: dg.AssetCheckSeverity,
    metadata: Mapping[str, Any],
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.table),
        check_name=name,
        description=says,
        passed=passed,
        severity=severity,
        metadata=metadata,
    )
