"""Rule: what the registry lets a schema become is planned and applied whole, and planning again gives nothing."""

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from random_avro import Maker

from tidemark.domain.columns.coverage import covers
from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.formats.avro import parse
from tidemark.domain.formats.avro_columns import columns
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.schema_plan import WriterColumns, plan_schema


def writers(seed: int) -> list[WriterColumns]:
    """Three versions of a random record."""
    maker = Maker(Random(seed))
    versions: list[Any] = [maker.record(8, 3)]
    for _ in range(2):
        versions.append(maker.changed(versions[-1]))
    return [
        WriterColumns(number, number, columns(parse(json.dumps(schema))).struct)
        for number, schema in enumerate(versions, 1)
    ]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), order=st.permutations(range(3)))
def test_compatible_versions_never_wait_and_are_all_held_in_any_order(seed: int, order: list[int]) -> None:
    known, policy = writers(seed), SchemaChanges()
    table = known[order[0]].columns
    for turn in range(2, 4):
        plan = plan_schema("shop.orders", table, [known[n] for n in order[:turn]], policy)
        assert {c.verdict for c in plan.changes} <= {"apply"}, plan.changes
        table = applied(table, plan.changes)
        assert plan_schema("shop.orders", table, [known[n] for n in order[:turn]], policy).changes == ()
    assert [covers(table, each.columns) for each in known] == [()] * 3
