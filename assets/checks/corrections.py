"""The check `follows_corrections` of a mart, which its build finds out, and a rollback beneath it."""

from collections.abc import Mapping

import dagster as dg

from assets.names import CORRECTED, table_key

NEXT = (
    "job marts with this one selected, and with those that have not followed; with full_refresh where `retention` has "
    "deleted rows: their figures then go. What dbt never makes anew (`full_refresh: false`, a snapshot) may have rows "
    "of what was taken back: delete them, or drop the table; then, or to leave them there, build it with full_refresh"
)


def corrected(mart: str, stale: Mapping[str, str]) -> dg.AssetCheckEvaluation:
    """Whether the mart is made of what is beneath it now; `stale`: table beneath -> what happened to it."""
    told = {"stale": [f"{table} {why}" for table, why in sorted(stale.items())]} if stale else {}
    return dg.AssetCheckEvaluation(
        asset_key=table_key(mart),
        check_name=CORRECTED,
        passed=not stale,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={**told, **({"next": NEXT} if stale else {})},
    )
