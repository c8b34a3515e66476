"""The check `follows_corrections` of a mart, which its build finds out, and a rollback beneath it."""

from collections.abc import Mapping

import dagster as dg

from assets.names import CORRECTED, table_key

NEXT = "job marts with this one selected; with full_refresh where `retention` has deleted rows: their figures then go"


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
