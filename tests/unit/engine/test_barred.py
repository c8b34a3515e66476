"""Rule: a version of a schema never waits for ever: its columns are there, a person is asked, or its records go aside."""

import json
from collections.abc import Sequence
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.domain.columns.types import INT, LONG, STRING, ColumnType, Field, Struct
from tidemark.domain.config.contract import Contract, SchemaChanges
from tidemark.domain.formats.avro import parse
from tidemark.domain.plan.meanings import MEANINGS
from tidemark.engine.access.table_state import TableState
from tidemark.engine.schema.evolve import SETTLED_IDS, barred_ids, plan_evolution, state_after, value_columns
from tidemark.engine.schema.writer import Writer
from tidemark.engine.schema.writers import TopicSchemas

Verdict = Literal["apply", "review", "quarantine"]
VERDICTS: tuple[Verdict, ...] = ("apply", "review", "quarantine")


def versions_of(chance: Random) -> list[Struct]:
    """Versions of a record with an int: of which columns may widen, clash, come and go."""

    def kind() -> ColumnType:
        return chance.choice((INT, LONG, STRING))

    found = [Struct((Field("a", INT),))]
    for _ in range(chance.randint(2, 4)):
        columns = {
            "a": chance.choice((INT, LONG)),
            "b": kind(),
            "c": Struct((Field("x", kind()), Field("y", kind()))),
        }
        names = ["a", *(name for name in "bc" if chance.random() < 0.6)]
        found.append(Struct(tuple(Field(name, columns[name]) for name in names)))
    return found


ANY = parse('"string"')


def evolved(versions: Sequence[Struct], policy: SchemaChanges) -> tuple[frozenset[int], frozenset[int], int]:
    """Ids of a table of the first version once all that may be applied or approved is: barred, held; and how many."""
    contract = Contract(topic="orders", table="shop.orders", schema_changes=policy)
    schemas = TopicSchemas(tuple(Writer(n, n, ANY, each) for n, each in enumerate(versions, 1)))
    state = TableState("shop.orders", exists=True, columns=versions[0], properties={MEANINGS: "{}"})
    plan = plan_evolution(contract, state, schemas)
    done = [change for change in plan.of("apply", "review") if change.kind in {"add_column", "widen_type"}]
    settled = [change.schema_id for change in plan.of("review") if change.kind == "incompatible"]
    after = state_after(state, done)
    after = TableState(
        "shop.orders",
        exists=True,
        columns=after.columns,
        properties={**after.properties, SETTLED_IDS: json.dumps(settled)},
    )
    held = schemas.covered(value_columns(after))
    return barred_ids(contract, after, schemas), frozenset(held), len(versions)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_once_all_is_decided_each_version_is_held_or_barred(seed: int) -> None:
    chance = Random(seed)
    policy = SchemaChanges(
        add_column=chance.choice(VERDICTS),
        widen_type=chance.choice(VERDICTS),
        incompatible=chance.choice(VERDICTS[1:]),
    )
    barred, held, count = evolved(versions_of(chance), policy)
    assert barred | held == set(range(1, count + 1))


@pytest.mark.parametrize("widen", VERDICTS)
def test_a_version_that_clashes_with_one_in_quarantine_and_widens_too_goes_there(
    widen: Verdict,
) -> None:
    """Given that new columns go to quarantine, when a version wants one with another type and widens a column, then none of its records waits."""
    first = Struct((Field("id", INT), Field("who", STRING)))
    second = Struct((*first.fields, Field("note", INT)))
    third = Struct((Field("id", LONG), Field("who", STRING), Field("note", STRING)))
    policy = SchemaChanges(add_column="quarantine", widen_type=widen)
    assert evolved([first, second, third], policy)[:2] == ({2, 3}, {1})
