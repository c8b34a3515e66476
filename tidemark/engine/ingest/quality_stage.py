"""Rules that judge what is staged, before it is published: blocking rules of rows, and rules of the whole batch.

pandera runs them over Spark Connect on exactly the rows that this attempt has staged; each rule is one of its checks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.columns.types import table_columns
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.quality_results import SAMPLES, RuleResult, Rules, Sample
from tidemark.engine.access.lake import Lake
from tidemark.engine.decode.quality_rows import broken, is_judged, sample, untold
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.stage import Staged
from tidemark.engine.table.head_rows import head_rows

_SAMPLE = "_tidemark_sample"


def judge_stage(
    lake: Lake, plan: Plan, staged: Staged, without: frozenset[str] = frozenset(), replaced: str | None = None
) -> dict[str, RuleResult]:
    """What the rules on the stage came to, by name; nothing is read when there are none.

    Checks in `without` are left out. If the stage replaces the rows where `replaced`, blocking rules of the whole table
    are judged nevertheless, against the other rows.

    Raises:
        Stopped: `quality_blocked`, with every blocking rule that does not hold.
    """
    rules = plan.staged_rules
    if rules is None:
        return {}
    due = tuple(
        rule
        for rule in rules.rules
        if rule.check not in without or (replaced and rule.within == "table" and rule.on_failure == "block")
    )
    if not due:
        return {}
    rules = replace(rules, rules=due)
    rows = _staged_rows(lake, plan, staged)
    results = validate(rows, rules, lambda: _published_rows(lake, plan, replaced))
    blocking = [each for each in results.values() if each.on_failure == "block" and each.failed]
    if blocking:
        raise Stopped(
            "quality_blocked",
            plan.contract.table,
            "; ".join(str(each) for each in blocking),
            topic=plan.contract.topic,
            read=staged.rows,
            rules=[each.as_json() for each in results.values()],
        )
    return results


def validate(rows: DataFrame, rules: Rules, published: Callable[[], DataFrame]) -> dict[str, RuleResult]:
    """Run every rule as a pandera check of `rows` that hold values; `published`: the table's, for rules of all rows.

    `min_rows` counts all `rows`.
    """
    import pandera.pyspark as pa  # noqa: PLC0415 - two seconds that only a batch with staged rules pays
    from pandera.config import ValidationDepth, config_context  # noqa: PLC0415

    found: dict[str, RuleResult] = {}
    faults: list[Exception] = []

    def holds(frame: DataFrame, *, rule: QualityRule) -> bool:
        try:
            found[rule.title] = (
                _enough(rows, rule, rules)
                if rule.check == "min_rows"
                else _judge(frame, rule, rules, published)
            )
        except Exception as error:
            faults.append(error)  # pandera would report an outage as a rule that was broken
            raise
        return not found[rule.title].failed

    checks = [
        pa.Check(partial(holds, rule=rule), name=rule.title, error=rule.expectation) for rule in rules.rules
    ]
    schema = pa.DataFrameSchema(checks=checks, name="staged rows")
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        errors = schema.validate(rows.where(is_judged(rules.columns)), lazy=True).pandera.errors
    if faults:
        raise faults[0]
    if bool(errors) != any(each.failed for each in found.values()) or len(found) != len(rules.rules):
        raise RuntimeError(f"pandera reports {errors}, the rules {found}")
    return found


def _judge(
    rows: DataFrame, rule: QualityRule, rules: Rules, published: Callable[[], DataFrame]
) -> RuleResult:
    if rule.check == "unique":
        return _unique(rows, rule, rules, published)
    return _counted(rows.where(F.coalesce(broken(rule, rules.columns), F.lit(False))), rule, rules)


def _counted(bad: DataFrame, rule: QualityRule, rules: Rules) -> RuleResult:
    """The rows of `bad`, counted, and the first few of them."""
    at = F.struct("_kafka.partition", "_kafka.offset")
    seen = bad.agg(F.count("*").alias("n")).collect()[0]["n"]
    if not seen:
        return RuleResult.of(rule)
    first = bad.orderBy(at).limit(SAMPLES).select(sample(rule, rules).alias(_SAMPLE)).collect()
    return RuleResult.of(rule, seen, (Sample.from_json(row[_SAMPLE]) for row in first))


def _enough(rows: DataFrame, rule: QualityRule, rules: Rules) -> RuleResult:
    """`failed` is how many rows are missing; none where no row holds values: such a batch waits for no more."""
    valued = F.count_if(is_judged(rules.columns)).alias("valued")
    [seen] = rows.agg(F.count("*").alias("n"), valued).collect()
    missing = int(str(rule.min)) - seen["n"] if seen["valued"] else 0
    return RuleResult.of(rule, max(0, missing))


def _unique(
    rows: DataFrame, rule: QualityRule, rules: Rules, published: Callable[[], DataFrame]
) -> RuleResult:
    """`failed` counts the staged rows whose key another row has; with NULL or what is `untold` in it it equals none."""
    keys = [F.col(quoted_name(*column_parts(path))) for path in rule.paths]
    named = [key.alias(f"k{place}") for place, key in enumerate(keys)]
    staged = _complete(rows, rule, rules).select(
        *named, sample(rule, rules).alias(_SAMPLE), F.lit(1).alias("staged")
    )
    names = [f"k{place}" for place in range(len(keys))]
    everything = staged
    if rule.within == "table":
        before = _complete(published(), rule, rules).select(*named)
        met = before.join(F.broadcast(staged.select(*names).distinct()), names, "left_semi")
        everything = staged.unionByName(
            met.select(*names, F.lit(None).cast("string").alias(_SAMPLE), F.lit(0).alias("staged"))
        )
    groups = everything.groupBy(*names).agg(
        F.count("*").alias("n"), F.sum("staged").alias("staged"), F.min(_SAMPLE).alias(_SAMPLE)
    )
    again = groups.where((F.col("n") > 1) & (F.col("staged") > 0))
    counted = again.agg(F.sum("staged").alias("n")).collect()[0]["n"]
    if not counted:
        return RuleResult.of(rule)
    shown = again.orderBy(_SAMPLE).limit(SAMPLES).select(_SAMPLE).collect()
    return RuleResult.of(rule, counted, (Sample.from_json(row[_SAMPLE]) for row in shown))


def _complete(rows: DataFrame, rule: QualityRule, rules: Rules) -> DataFrame:
    for path in rule.paths:
        rows = rows.where(F.col(quoted_name(*column_parts(path))).isNotNull() & ~untold(path, rules.columns))
    return rows


def _staged_rows(lake: Lake, plan: Plan, staged: Staged) -> DataFrame:
    """Exactly what this attempt has appended: what lies between the planned head and its snapshot."""
    reader = lake.spark().read.option("end-snapshot-id", str(staged.snapshot_id))
    if plan.state.head is not None:
        reader = reader.option("start-snapshot-id", str(plan.state.head))
    return reader.table(lake.identifier(plan.contract.table))


def _published_rows(lake: Lake, plan: Plan, replaced: str | None) -> DataFrame:
    """The table as the plan found it, but for the rows that are `replaced`."""
    rows = head_rows(lake, plan.state).where(is_judged(table_columns(plan.columns)))
    return rows.where(~F.coalesce(F.expr(replaced), F.lit(False))) if replaced else rows
