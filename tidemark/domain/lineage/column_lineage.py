"""Where columns come from and which tags travel with them: topic -> append table -> upsert table -> mart.

A table's lineage maps each of its columns to (table, column) pairs one step up. Tags of a contract's `columns` hold
for that column and for everything that is made of it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.domain.columns.partitioning import columns_of
from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import SOFT_COLUMN, upsert_tables
from tidemark.domain.formats.key_columns import OURS

Origin = tuple[str, str]
"""(table, column)."""
Lineage = Mapping[str, Mapping[str, Collection[Origin]]]
"""Table -> column -> what it is made of, one step up. Tables that are nobody's product are not in it."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """A tagged column that reached a table which the contract does not name in `allow`."""

    table: str
    column: str
    tags: tuple[str, ...]
    origin: Origin

    def __str__(self) -> str:
        return (
            f"{self.table}.{self.column} carries {', '.join(self.tags)} of {self.origin[0]}.{self.origin[1]}"
        )


def lineage_of(columns: Mapping[str, Sequence[Mapping[str, Any]]], contracts: Sequence[Contract]) -> Lineage:
    """What the discovery file knows of tables that say where their columns come from, and upsert tables by contract.

    Of an upsert table that nobody has looked at, the columns that the contract or another table names: what is
    tagged must not get through because a file is not there.
    """
    upserts = upsert_tables(contracts)
    spelled = _spelled(columns, contracts, {each.append.table: table for table, each in upserts.items()})
    told = {
        table: {
            each["name"]: [(t, spelled.get((t, c.lower()), c)) for t, c in each["from"]]
            for each in listed
            if "from" in each
        }
        for table, listed in columns.items()
    }
    named = inverse(told)
    merged = {}
    for table, each in upserts.items():
        seen = [column["name"] for column in columns.get(table, ())]
        merged[table] = upsert_fields(
            each.append.table, [*seen, *each.append.columns, *sorted(named.get(table, ()))]
        )
    return told | merged


def _spelled(
    columns: Mapping[str, Sequence[Mapping[str, Any]]],
    contracts: Iterable[Contract],
    upserts: Mapping[str, str],
) -> dict[Origin, str]:
    """(table, column in lower case) -> the column as tables and contracts spell it; dbt names all in lower case.

    `upserts`: append table -> its upsert table.
    """
    noted = [(each.table, name) for each in contracts for path in each.columns for name in columns_of(path)]
    seen = [(table, each["name"]) for table, listed in columns.items() for each in listed]
    return {
        (place, name.lower()): name
        for table, name in (*noted, *seen)
        for place in (table, upserts.get(table, table))
    }


def inverse(lineage: Lineage) -> Lineage:
    """Table -> column -> what is made of it, one step down."""
    found = defaultdict[str, defaultdict[str, set[Origin]]](lambda: defaultdict(set))
    for table, columns in lineage.items():
        for column, above in columns.items():
            for up, name in above:
                found[up][name].add((table, column))
    return found


def origins(lineage: Lineage, table: str, column: str, *, values: bool = False) -> frozenset[Origin]:
    """All columns that `table.column` is made of, however many steps up, itself included.

    With `values` those whose values are in it: the delete mark is made of `_kafka` but repeats no value of it.
    """
    found: set[Origin] = set()
    waiting = [(table, column)]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        if not (values and each[1] == SOFT_COLUMN.name):
            waiting += _above(lineage, each)
    return frozenset(found)


def way_up(lineage: Lineage, table: str, column: str) -> list[list[Origin]]:
    """What a column is made of, step by step until nothing is known any more; each column at its first step only."""
    steps: list[list[Origin]] = []
    seen: set[Origin] = {(table, column)}
    while step := sorted(
        {up for each in (steps[-1] if steps else [(table, column)]) for up in _above(lineage, each)} - seen
    ):
        seen |= set(step)
        steps.append(step)
    return steps


def made_of_it(below: Lineage, table: str, column: str) -> list[Origin]:
    """The columns of other tables that `table.column` is in, however many steps down, sorted.

    `below`: the `inverse` lineage.
    """
    return sorted(each for each in origins(below, table, column) if each[0] != table)


def with_topics(
    lineage: Lineage, contracts: Iterable[Contract], columns: Mapping[str, Iterable[str]]
) -> Lineage:
    """The lineage with one more step: from an append table's columns to the fields of its topic."""
    fields = {
        each.table: {
            name: [(f"topic {each.topic}", field)]
            for name, field in topic_fields(each, columns.get(each.table, ()))
        }
        for each in contracts
    }
    return {**lineage, **fields}


def tags_of(lineage: Lineage, contracts: Iterable[Contract], table: str, column: str) -> tuple[str, ...]:
    """The tags of a column and of all that it is made of, sorted."""
    noted, above = {each.table: each for each in contracts}, origins(lineage, table, column, values=True)
    found = (note_of(noted[t], name) for t, name in above if t in noted)
    return tuple(sorted({tag for tags, _ in found for tag in tags}))


def exposures(lineage: Lineage, contracts: Iterable[Contract], table: str) -> list[Exposure]:
    """The tagged columns that reach `table` without leave of the contract that tagged them."""
    noted = {each.table: each for each in contracts}
    return [
        Exposure(table, column, tags, origin)
        for column in sorted(lineage.get(table, {}))
        for origin in sorted(origins(lineage, table, column, values=True))
        if origin[0] != table and origin[0] in noted
        for tags, allowed in [note_of(noted[origin[0]], origin[1])]
        if tags and table not in allowed
    ]


def untraced(lineage: Lineage, table: str, columns: Iterable[str], marts: Collection[str]) -> list[str]:
    """Of `columns` those that are made, however many steps up, of a mart's column of which nobody knows more."""
    return [
        column
        for column in columns
        if any(t in marts and c not in lineage.get(t, {}) for t, c in origins(lineage, table, column))
    ]


def topic_fields(contract: Contract, columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(column, field of the record) for the columns that come from the record's value; `_kafka` and `_cdc` do not."""
    for name in columns:
        if name not in OURS:
            yield name, "value" if contract.value.format in {"string", "raw"} else name


def upsert_fields(append: str, columns: Iterable[str]) -> dict[str, list[Origin]]:
    """An upsert table's columns are those of the append table; the mark of a delete is what the row came with."""
    return {name: [(append, KAFKA_COLUMN.name if name == SOFT_COLUMN.name else name)] for name in columns}


def _above(lineage: Lineage, origin: Origin) -> Collection[Origin]:
    return lineage.get(origin[0], {}).get(origin[1], ())


def note_of(contract: Contract, column: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(tags, allowed tables) of a column and of the parts of it: what is made of it has them all; sorted.

    In whatever case they are spelled: tags on a column that nobody finds would protect nothing.

    `_kafka` has the Kafka key in it, so the columns that `key.fields` names are parts of it. A table is allowed where
    everyone that tags a part of the column allows it.
    """
    keyed = contract.key.fields if column == KAFKA_COLUMN.name else ()
    meant = {column.lower(), *(name.lower() for path in keyed for name in columns_of(path))}
    notes = [
        note
        for path, note in contract.columns.items()
        if meant.intersection(name.lower() for name in columns_of(path))
    ]
    tags = {tag for note in notes for tag in note.tags}
    leaves = [set(note.allow) for note in notes if note.tags] or [set(note.allow) for note in notes]
    return tuple(sorted(tags)), tuple(sorted(set.intersection(*leaves))) if leaves else ()
