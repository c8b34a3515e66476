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
    queries = (query for query in tree.find_all(exp.Select) if _names_columns(query))
    columns = (column for query in queries for column in query.expressions)
    unnamed = (column for column in columns if not isinstance(column, exp.Alias | exp.Column | exp.Star))
    if any(column.find(exp.Column) for column in unnamed):
        return True
    return not all(_selects_or_counts(star) for star in tree.find_all(exp.Star))


def _names_columns(query: exp.Expression) -> bool:
    """Not the later queries of a union, which has the names of the first, nor one of which only a value is taken."""
    around = query.parent
    if isinstance(around, exp.SetOperation):
        return query.arg_key == "this" and _names_columns(around)
    if isinstance(around, exp.Subquery):
        return _names_columns(around)
    return around is None or isinstance(around, exp.CTE | exp.From | exp.Join | exp.Lateral)


def _selects_or_counts(star: exp.Star) -> bool:
    around = star.parent
    while isinstance(around, exp.Column | exp.Distinct):
        around = around.parent
    return isinstance(around, exp.Select | exp.Count)
