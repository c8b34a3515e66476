"""The contract's rules of rows on rows that a backfill copies: no batch judges them, no bytes go to a quarantine."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.types import table_columns
from tidemark.domain.ledger.quality_results import RuleResult, Rules, hidden_columns
from tidemark.engine.access.lake import Lake
from tidemark.engine.decode.quality_rows import judged, rule_metrics, rule_results
from tidemark.engine.decode.working_columns import CAUSE, FATE
from tidemark.engine.ingest.executable_rules import check_rules
from tidemark.engine.operate.backfill.plan import Work
from tidemark.engine.schema.evolve import value_columns

RULES_REMEDY = "load from a copy without these rows, or change the rule in the contract"


def judge_copied(lake: Lake, work: Work, rows: DataFrame) -> list[RuleResult]:
    """What the rules of rows come to for rows of the table, in one pass; none is read where there are no such rules.

    Raises:
        Stopped: `misconfigured`: a rule does not fit the table's columns.
    """
    due = tuple(rule for rule in work.contract.quality if rule.of_rows)
    if not due:
        return []
    columns = table_columns(value_columns(work.target))
    check_rules(lake, work.contract, columns)
    rules = Rules(due, columns, hidden_columns(work.contract))
    fated = rows.withColumns({FATE: F.lit("written"), CAUSE: F.lit(None).cast("string")})
    [seen] = judged(fated, rules).agg(*rule_metrics(rules)).collect()
    return list(rule_results(rules, seen.asDict()).values())


def told_rules(results: Sequence[RuleResult]) -> dict[str, Any]:
    """The results, and `hinders` where a rule does not hold that lets no row that breaks it into the table."""
    broken = [each for each in results if each.failed and each.on_failure != "warn"]
    listed = "; ".join(f"{each.rule} ({each.expectation}): {each.failed} rows" for each in broken)
    why = f"rules of the contract do not hold for rows that have no bytes to be quarantined with: {listed}"
    told = {"rules": [each.as_json() for each in results]} if results else {}
    return {**told, **({"hinders": why} if broken else {})}
