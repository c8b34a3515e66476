"""Rule: a change of several commits is told once, with what of it was made, whoever dies or overtakes whom."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tidemark.domain.columns.types import LONG
from tidemark.domain.plan.schema_plan import Change
from tidemark.engine.schema.history import (
    BEGUN,
    HISTORY,
    KEPT,
    begun,
    history_properties,
    is_rest,
    unfinished,
)


def change(*path: str) -> Change:
    return Change("add_column", path, None, LONG, "apply", "")


def entry(run: str, *paths: str, by: str = "contract", plan: str = "p") -> dict[str, Any]:
    changes = [change(path).as_json() for path in paths]
    return {"plan": plan, "at": f"2026-01-01T00:00:0{run}", "by": by, "run_id": run, "changes": changes}


@pytest.fixture
def metadata(tmp_path: Path) -> Any:
    """A table that has the columns a and b, with the notes that a test names."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    columns = (NestedField(number, name, LongType(), required=False) for number, name in ((1, "a"), (2, "b")))
    made = catalog.create_table("shop.orders", Schema(*columns)).metadata
    return lambda *noted, known=(): made.model_copy(
        update={"properties": {BEGUN: json.dumps(noted), HISTORY: json.dumps(known)}}
    )


def after(made: Any, ours: Any = None, left: tuple[Change, ...] = ()) -> tuple[list[Any], list[Any]]:
    """(run, columns) of each entry of the history, and the runs that are still under way."""
    found = history_properties("shop.orders", made, ours, left)
    entries = [(each["run_id"], [c["path"] for c in each["changes"]]) for each in json.loads(found[HISTORY])]
    return entries, [each["run_id"] for each in json.loads(found.get(BEGUN, "[]"))]


def test_what_a_crash_cut_off_is_told_as_far_as_it_was_made(metadata: Any) -> None:
    assert after(metadata(entry("1", "a", "z"))) == ([("1", ["a"])], [])
    assert after(metadata(entry("1", "a", "b")), left=(change("b"),)) == ([("1", ["a"])], [])
    assert after(metadata(entry("1", "z"))) == ([], [])


def test_the_rest_is_told_of_whoever_made_it(metadata: Any) -> None:
    made = metadata(entry("1", "a", "b"), entry("2", "b", plan="rest"))
    assert after(made, entry("2", "b", plan="rest")) == ([("1", ["a"]), ("2", ["b"])], [])


def test_of_two_at_once_one_is_told(metadata: Any) -> None:
    first, second = entry("1", "a", "b"), entry("2", "a", "b")
    assert after(metadata(first, second), second) == ([("2", ["a", "b"])], [])
    assert after(metadata(first, second)) == ([("1", ["a", "b"])], [])
    assert after(metadata(known=[first]), first) == ([("1", ["a", "b"])], [])
    assert after(metadata(second, known=[second])) == ([("2", ["a", "b"])], [])
    assert after(metadata(known=[second]), first) == ([("2", ["a", "b"])], []), (
        "told by the other's next look"
    )
    assert after(metadata(second, known=[first])) == ([("1", ["a", "b"])], []), "noted as begun too late"


def test_an_approval_that_died_can_be_repeated_as_long_as_any_of_it_waits(metadata: Any) -> None:
    approved = entry("1", "a", "b", by="ann")
    assert after(metadata(approved), left=(change("b"),)) == ([], ["1"])
    state: Any = SimpleNamespace(properties=metadata(approved).properties)
    assert unfinished(state, (change("b"),)) == []
    assert is_rest(state, (change("b"),), "p")
    assert not is_rest(state, (change("b"), change("c")), "p")
    assert not is_rest(state, (change("b"),), "another")
    assert not is_rest(state, (), "p")


def test_what_begins_stands_beside_what_others_have_begun(metadata: Any) -> None:
    there = metadata(entry("1", "a")).properties
    found = begun(there, entry("2", "b"))
    assert [each["run_id"] for each in json.loads(str(found[BEGUN]))] == ["1", "2"]


def test_what_fails_again_and_again_is_noted_once(metadata: Any) -> None:
    made = metadata(entry("1", "a", "b"))
    assert begun(made.properties, entry("2", "a", "b")) == {}
    assert begun(made.properties, entry("2", "a", "b", by="ann"))
    assert after(made, entry("2", "a", "b")) == ([("2", ["a", "b"])], [])


def test_what_somebody_approved_outlives_what_the_contract_let_through(metadata: Any) -> None:
    """Given a full history, when edits of the contract follow, then they push each other out, and nobody's approval."""
    approved = entry("0", "a", by="ann")
    full = [approved, *(entry(f"r{n}", "b", plan=f"p{n}") for n in range(KEPT - 1))]
    found, _ = after(metadata(known=full), entry("new", "c", plan="q"))
    assert len(found) == KEPT
    assert [found[0], found[1], found[-1]] == [("0", ["a"]), ("r1", ["b"]), ("new", ["c"])]
