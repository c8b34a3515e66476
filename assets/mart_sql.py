"""What dagster-dbt's lineage of a mart passes over in silence, told by the SQL."""

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError


def passes_over(sql: str) -> bool:
    """Whether columns of Spark's `sql` may hold values although dagster-dbt says that they are made of nothing.

    It does not look at the columns that a star within a function stands for, nor at what has no name in SQL: Spark
    calls `upper(email)` so, and `inline(…)` gives it columns that stand nowhere.
    """
    try:
        tree = parse_one(sql, dialect="spark")
    except SqlglotError:
        return True
    columns = (column for query in tree.find_all(exp.Select) for column in query.expressions)
    unnamed = (column for column in columns if not isinstance(column, exp.Alias | exp.Column | exp.Star))
    if any(column.find(exp.Column) for column in unnamed):
        return True
    return not all(_selects_or_counts(star) for star in tree.find_all(exp.Star))


def _selects_or_counts(star: exp.Star) -> bool:
    around = star.parent
    while isinstance(around, exp.Column | exp.Distinct):
        around = around.parent
    return isinstance(around, exp.Select | exp.Count)
