"""What dagster-dbt's lineage of a mart passes over in silence, told by the SQL."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

_WITHOUT_VALUES = frozenset({"history", "metadata_log_entries", "refs", "snapshots"})
"""Iceberg's tables about a table that hold no value of it, as `files` do: bounds of columns."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """Where the lineage of one mart cannot be believed.

    `all`: it may lack a table whole. `empty`: of columns that it says are made of nothing. `names`: what the columns
    are called that the SQL selects; None where a star stands for some.
    """

    all: bool
    empty: bool
    names: frozenset[str] | None

    def believe(self, column: str, made_of: Sequence[Sequence[str]]) -> bool:
        """Whether the column, in lower case, is made of these (table, column) pairs and nothing else."""
        if self.all or any(name == "*" for _, name in made_of):
            return False
        return bool(made_of) or not (self.empty or (self.names is not None and column not in self.names))

    def lacks(self, column: str) -> bool:
        """Whether the SQL surely does not select the column, in lower case."""
        return not (self.all or self.empty or self.names is None or column in self.names)


def doubts(sql: str, tables: Collection[str]) -> Doubts:
    """What is to be doubted of Spark's `sql`, whose sources, `ref`s and itself are `tables` (namespace.name).

    dagster-dbt leaves out tables that are named otherwise, what lateral subqueries read, and what a nested select takes
    from the query around it: a column with another qualifier, or without one. It takes the names that an alias gives
    to a table's columns for those of the table. It does not look at the columns that a star within a function stands
    for, nor at what has no name in SQL: Spark calls `upper(email)` so, `inline(…)` gives it columns that stand nowhere,
    and a mart keeps columns that its SQL no longer has.
    """
    try:
        tree = parse_one(sql, dialect="spark")
    except SqlglotError:
        return Doubts(all=True, empty=True, names=None)
    selected = [name.lower() for name in tree.named_selects] if isinstance(tree, exp.Query) else ["*"]
    named = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)} | {
        table.lower() for table in tables
    }
    nested = [each for query in filter(_is_value, tree.find_all(exp.Select)) for each in _selected(query)]
    return Doubts(
        all=not all(_is_known(table, named) for table in tree.find_all(exp.Table))
        or any(each.name.lower() == "identifier" for each in tree.find_all(exp.Anonymous))
        or any(lateral.this.find(exp.Select) for lateral in tree.find_all(exp.Lateral))
        or any(_is_from_around(column) for column in nested),
        empty=any(map(_has_values_without_name, tree.find_all(exp.Select)))
        or not all(column.table for column in nested)
        or not all(_selects_or_counts(star) for star in tree.find_all(exp.Star)),
        names=None if "*" in selected else frozenset(selected),
    )


def _is_known(table: exp.Table, named: Collection[str]) -> bool:
    if isinstance(table.this, exp.Func):
        return True  # what makes rows of its arguments
    if table.alias_column_names:
        return False
    *parts, last = (part.name.lower() for part in table.parts)
    whole = ".".join(parts) if len(parts) > 1 and last in _WITHOUT_VALUES else ".".join((*parts, last))
    return whole in named


def _has_values_without_name(query: exp.Select) -> bool:
    unnamed = (each for each in query.expressions if not isinstance(each, exp.Alias | exp.Column | exp.Star))
    return _names_columns(query) and any(column.find(exp.Column) for column in unnamed)


def _names_columns(query: exp.Expression) -> bool:
    """Not the later queries of a union, which has the names of the first, nor one of which only a value is taken."""
    around = query.parent
    if isinstance(around, exp.SetOperation):
        return query.arg_key == "this" and _names_columns(around)
    if isinstance(around, exp.Subquery | exp.From | exp.Join | exp.Lateral):
        return _names_columns(around)
    if isinstance(around, exp.Select) and isinstance(query, exp.From | exp.Join | exp.Lateral):
        return _names_columns(around)
    return around is None or isinstance(around, exp.CTE)


def _is_value(query: exp.Select) -> bool:
    """Whether the query, or one that it is part of, stands for a value of another; what rows are chosen by is none."""
    inner: exp.Expr = query
    value = False
    while (around := inner.parent) is not None:
        if isinstance(around, exp.Where | exp.Having) or inner.arg_key == "on":
            return False
        value |= isinstance(inner, exp.Subquery) and not isinstance(
            around, exp.Subquery | exp.SetOperation | exp.From | exp.Join | exp.Lateral
        )
        inner = around
    return value


def _selected(query: exp.Select) -> list[exp.Column]:
    columns = [column for each in query.expressions for column in each.find_all(exp.Column)]
    return [each for each in columns if each.parent_select is query and not isinstance(each.this, exp.Star)]


def _is_from_around(column: exp.Column) -> bool:
    query = column.parent_select
    if query is None or not (source := query.args.get("from_")):
        return True
    own = [source, *query.args.get("joins", ()), *query.args.get("laterals", ())]
    return bool(column.table) and column.table.lower() not in {each.alias_or_name.lower() for each in own}


def _selects_or_counts(star: exp.Star) -> bool:
    if isinstance(star.find_ancestor(exp.Count, exp.Select), exp.Count):
        return True
    around = star.parent
    while isinstance(around, exp.Column):
        around = around.parent
    return isinstance(around, exp.Select)
