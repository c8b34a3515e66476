"""Row rules of a contract while a batch is decoded: which rows break which rule, at no second pass.

Belongs here: expressions over the columns of a row. They never raise: a condition of SQL that cannot be evaluated for a
record (a division by zero, a cast) counts as broken by it. Rows that stand for a delete (tombstones, Debezium's `d` and
`t`) are not judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.layout import resolve
from tidemark.domain.columns.names import CDC
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, Primitive, Struct
from tidemark.domain.config.quality import CAUSE_PREFIX, QualityRule
from tidemark.domain.config.quality_fit import bound, literal
from tidemark.domain.config.quality_sql import mentioned
from tidemark.domain.ledger.quality_results import RuleResult, Rules, Sample, may_show
from tidemark.engine.access.conditions import any_of, kept_apart
from tidemark.engine.decode.unavailable_values import is_unknown, may_be_unknown
from tidemark.engine.decode.working_columns import CAUSE, FATE

BROKEN = "_tidemark_rule_"
SHOWN = 200
"""Characters of a value in a sample."""
_DELETES = ("d", "t")


def judged(rows: DataFrame, rules: Rules) -> DataFrame:
    """`rows` with one working column per rule, and FATE and CAUSE of those that a rule sends to quarantine.

    Each condition of SQL is kept apart from the others by a column that Spark cannot merge: what two of them have in
    common would otherwise be evaluated for both at once, outside of what catches its errors.
    """
    due = (F.col(FATE) == "written") & is_judged(rules.columns)
    for place, rule in enumerate(rules.rules):
        at = due if rule.sql is None else kept_apart(due)
        rows = rows.withColumn(f"{BROKEN}{place}", F.coalesce(at & broken(rule, rules.columns), F.lit(False)))
    refused = [
        (f"{BROKEN}{n}", rule) for n, rule in enumerate(rules.rules) if rule.on_failure == "quarantine"
    ]
    if not refused:
        return rows
    found = any_of([F.col(flag) for flag, _ in refused])
    causes = F.coalesce(F.col(CAUSE), *(F.when(F.col(flag), rule.cause) for flag, rule in refused))
    return rows.withColumns({CAUSE: causes, FATE: F.when(found, "quarantined").otherwise(F.col(FATE))})


def is_judged(columns: Struct) -> Column:
    """True for rows that hold values, not a delete."""
    holds = ~F.col(f"{KAFKA_COLUMN.name}.tombstone")
    if _are_changes(columns):
        holds &= F.coalesce(~F.col(f"{CDC}.op").isin(*_DELETES), F.lit(True))
    return holds


def broken(rule: QualityRule, columns: Struct) -> Column:
    """True for a row that breaks the rule; NULL and what is `untold` keep it. The rule fits (`fit_faults`)."""
    if rule.sql is not None:
        return _false_or_raises(F.expr(rule.sql))
    return _value_broken(rule, rule.paths[0], columns) & ~untold(rule.paths[0], columns)


def untold(path: str, columns: Struct) -> Column:
    """True where the column holds what stands for a value that Debezium did not know; never NULL."""
    column = columns.field(column_parts(path)[0]) if _are_changes(columns) else None
    if column is None or not may_be_unknown(column.type):
        return F.lit(False)
    return is_unknown(F.col(quoted_name(column.name)), column.type)


def _are_changes(columns: Struct) -> bool:
    kind = columns.field(CDC)
    return kind is not None and isinstance(kind.type, Struct) and kind.type.field("op") is not None


def _value_broken(rule: QualityRule, path: str, columns: Struct) -> Column:
    value, kind = F.col(quoted_name(*column_parts(path))), resolve(columns, path)
    if rule.check == "not_null":
        return value.isNull()
    if rule.check == "length":
        return _outside(_length(value, kind), rule.min, rule.max)
    if rule.check == "matches":
        return _false_or_raises(value.rlike(anchored(rule.pattern or "")))
    if not isinstance(kind, Primitive):
        raise ValueError(f"{rule.title} does not apply to {kind}")  # noqa: TRY004 - a wrong plan, no wrong call
    if rule.check == "in_range":
        return _out_of_range(rule, value, kind)
    inside = value.isin(*(_literal(kind, literal(kind, each)) for each in rule.values or ()))
    return inside if rule.check == "not_in_set" else ~inside


def anchored(pattern: str) -> str:
    """The regular expression of a text that is matched from its beginning to its end."""
    return rf"\A(?:{pattern})\z"


def rule_metrics(rules: Rules) -> list[Column]:
    """What the pass counts per rule: rows that broke it, and the first and the last of them as JSON."""
    metrics = []
    for place, rule in enumerate(rules.rules):
        flag = F.col(f"{BROKEN}{place}")
        shown = sample(rule, rules)
        order = F.when(flag, F.struct(f"{KAFKA_COLUMN.name}.partition", f"{KAFKA_COLUMN.name}.offset"))
        metrics += [
            F.count_if(flag).alias(f"rule_{place}_failed"),
            F.min_by(F.when(flag, shown), order).alias(f"rule_{place}_first"),
            F.max_by(F.when(flag, shown), order).alias(f"rule_{place}_last"),
        ]
    return metrics


def rule_results(rules: Rules, seen: Mapping[str, Any]) -> dict[str, RuleResult]:
    """What the metrics of a pass say, by rule."""
    found = {}
    for place, rule in enumerate(rules.rules):
        texts = (seen[f"rule_{place}_first"], seen[f"rule_{place}_last"])
        samples = [Sample.from_json(text) for text in texts if text]
        found[rule.title] = RuleResult.of(rule, seen[f"rule_{place}_failed"], samples)
    return found


def sample(rule: QualityRule, rules: Rules) -> Column:
    """The JSON that `Sample.from_json` reads: where the row is, and the values that the rule looked at."""
    parts = {"p": F.col(f"{KAFKA_COLUMN.name}.partition"), "o": F.col(f"{KAFKA_COLUMN.name}.offset")}
    values = [value.alias(name) for name, value in _shown(rule, rules)]
    if values:
        parts["v"] = F.struct(*values)
    return F.to_json(F.struct(*(column.alias(name) for name, column in parts.items())))


def details(rules: Rules) -> Column:
    """For a row in quarantine by a rule: what was expected, and what was found instead."""
    first = [
        F.when(
            F.col(f"{BROKEN}{place}"), F.concat(F.lit(f"not so: {rule.expectation}"), *_found(rule, rules))
        )
        for place, rule in enumerate(rules.rules)
        if rule.on_failure == "quarantine"
    ]
    refused = F.startswith(F.col(CAUSE), F.lit(CAUSE_PREFIX))
    return F.when(refused, F.coalesce(*first, F.lit(None).cast("string")))


def _found(rule: QualityRule, rules: Rules) -> Iterator[Column]:
    for name, value in _shown(rule, rules):
        yield F.lit(f"; {name} is ")
        yield F.coalesce(value, F.lit("NULL"))


def _shown(rule: QualityRule, rules: Rules) -> list[tuple[str, Column]]:
    """The values of plain columns that the rule looks at and that may be shown, as text."""
    paths: Sequence[str] = rule.paths
    if rule.sql is not None:
        names = mentioned(rule.sql, (field.name for field in rules.columns.fields))
        paths = [quoted_name(name) for name in names]
    found = []
    for path in paths:
        kind, parts = resolve(rules.columns, path), column_parts(path)
        if isinstance(kind, Primitive) and may_show(".".join(parts), rules.hidden):
            value = F.col(quoted_name(*parts))
            text = F.hex(value) if kind.name == "binary" else value.cast("string")
            found.append((".".join(parts), F.substring(text, 1, SHOWN)))
    return found


def _false_or_raises(condition: Column) -> Column:
    """True where it does, as `rlike` does on a text that its pattern needs too much stack for (`Matches.java`).

    Spark's only way of catching whatever an expression raises is in the functions that begin with `try_`; this one
    takes the text that the condition chooses.
    """
    answer = F.try_to_binary(F.when(~condition, F.lit("00")).otherwise(F.lit("01")), F.lit("hex"))
    return ~answer.eqNullSafe(F.lit(b"\x01"))


def _out_of_range(rule: QualityRule, value: Column, kind: Primitive) -> Column:
    low = None if rule.min is None else _literal(kind, bound(kind, rule.min, "min"))
    high = None if rule.max is None else _literal(kind, bound(kind, rule.max, "max"))
    outside = _outside(value, low, high)
    return outside | F.isnan(value) if kind.name in {"float", "double"} else outside


def _outside(value: Column, low: Any, high: Any) -> Column:
    below = F.lit(False) if low is None else value < low
    return below if high is None else below | (value > high)


def _length(value: Column, kind: Any) -> Column:
    return F.length(value) if isinstance(kind, Primitive) else F.when(value.isNotNull(), F.size(value))


def _literal(kind: Primitive, text: str) -> Column:
    return F.lit(text) if kind.name == "string" else F.lit(text).cast(spark_ddl(kind))
