"""A proposed contract says no more than it must, and the verdict says why."""

from dataclasses import replace
from typing import Any

import pytest

from tidemark.domain.columns.types import DATE, LONG, STRING, TIMESTAMPTZ, Field, ListType, MapType, Struct
from tidemark.domain.config.contract import Contract, Declaration, Value
from tidemark.domain.config.layering import Document, Layer, merge
from tidemark.domain.plan.proposal import Keys, Proposal, Reason, Seen, Sizes, propose

SMALL, BIG = Sizes(100, 10, 200), Sizes(10**9, 10**7, 200)
PLAIN = Struct((Field("id", LONG), Field("name", STRING)))


def seen(columns: Struct = PLAIN, sizes: Sizes = SMALL, **more: object) -> Seen:
    return replace(Seen("orders", "lake.orders", "main", {}, columns, sizes), **more)  # type: ignore[arg-type]


def proposed(found: Seen) -> Proposal:
    made = propose(found)
    said = Declaration.model_validate(dict(made.contract))
    Contract.model_validate({**dict(made.contract), "table": found.table})
    assert said.topic == found.topic
    return made


def notes(made: Proposal) -> str:
    return " | ".join(reason.text for reason in made.reasons)


def test_a_topic_with_a_schema_needs_one_line() -> None:
    assert dict(proposed(seen()).contract) == {"topic": "orders"}


def test_another_cluster_is_said() -> None:
    assert dict(proposed(replace(seen(), cluster="eu")).contract) == {"topic": "orders", "cluster": "eu"}


@pytest.mark.parametrize(
    ("inherited", "surveyed", "said"),
    [
        ({"format": "json"}, {}, {"format": "registry"}),
        ({"format": "json"}, {"format": "json", "fields": {"token": "int"}}, {"fields": {"token": "int"}}),
        (
            {"format": "json", "fields": {"a": "int"}},
            {"format": "string"},
            {"format": "string", "fields": None},
        ),
        (
            {"envelope": "debezium", "types": {"timestamp_nanos": "long"}},
            {},
            {"envelope": "none", "types": None},
        ),
        ({"schema": "pinned", "version": 3}, {"schema": "pinned", "version": 3}, None),
        ({"format": "registry", "envelope": "none"}, {}, None),
    ],
)
def test_a_file_says_of_values_what_it_does_not_inherit_and_takes_back_the_rest(
    inherited: Any, surveyed: Any, said: Any
) -> None:
    """Given defaults above the file, when they and the file are merged, then values are read as surveyed."""
    above = {"value": inherited}
    made = propose(seen(value=surveyed), above)
    assert made.contract.get("value") == said
    layers = [Layer("defaults", Document("", above, {})), Layer("contract", Document("", made.contract, {}))]
    assert Value.model_validate(merge(layers).tree["value"]) == Value.model_validate(surveyed)


def test_a_file_says_the_cluster_that_it_does_not_inherit() -> None:
    for surveyed, said in (("eu", {}), ("main", {"cluster": "main"})):
        found = propose(replace(seen(), cluster=surveyed), {"cluster": "eu"})
        assert found.contract == {"topic": "orders", **said}


def test_one_time_column_partitions_by_day_or_month_as_the_volume_asks() -> None:
    timed = Struct((*PLAIN.fields, Field("bought", TIMESTAMPTZ)))
    assert proposed(seen(timed)).contract["partition_by"] == ["month(bought)"]
    assert proposed(seen(timed, BIG)).contract["partition_by"] == ["day(bought)"]


def test_of_several_time_columns_the_one_with_a_known_name_is_taken_or_someone_chooses() -> None:
    known = Struct((Field("birth", DATE), Field("ordered_at", TIMESTAMPTZ)))
    assert proposed(seen(known)).contract["event_time"] == "ordered_at"
    unknown = proposed(seen(Struct((Field("birth", DATE), Field("bought", TIMESTAMPTZ)))))
    assert "event_time" not in unknown.contract
    assert "choose event_time among birth, bought" in notes(unknown)


def test_a_large_topic_without_times_is_partitioned_by_the_record_time() -> None:
    assert proposed(seen(sizes=BIG)).contract["partition_by"] == ["day(_kafka.timestamp)"]


def test_debezium_is_recognised_by_its_fields() -> None:
    envelope = Struct(tuple(Field(name, STRING) for name in ("before", "after", "op", "source", "ts_ms")))
    assert proposed(seen(envelope)).contract["value"] == {"envelope": "debezium"}
    assert proposed(seen(envelope, key_format="registry")).contract["key"] == {"format": "registry"}
    assert "key" not in proposed(seen(key_format="registry")).contract
    flat = Struct((*PLAIN.fields, Field("__op", STRING)))
    assert proposed(seen(flat)).contract["value"] == {"envelope": "debezium_flat"}


def test_what_belongs_downstream_is_a_note_and_no_obstacle() -> None:
    deep = Struct((Field("a", ListType(Struct((Field("b", MapType(STRING, LONG)),)))),))
    made = proposed(seen(deep, json_text=("payload",), largest=5_000_000))
    assert made.fits
    assert all(
        text in notes(made)
        for text in ("flatten it downstream", "take it apart downstream", "keep large objects")
    )


def test_keys_that_come_again_speak_for_an_upsert_table() -> None:
    again = proposed(seen(keys=Keys(100, 0, 40, ("id",)), compacted=True))
    assert "40% distinct" in notes(again)
    assert "by id" in notes(again)
    assert "compacted" in notes(again)
    assert "no record has a key" in notes(proposed(seen(keys=Keys(100, 100, 0))))
    assert notes(proposed(seen(keys=Keys(100, 0, 100)))) == ""


def test_a_reason_against_it_is_a_verdict() -> None:
    made = proposed(seen(reasons=(Reason("no_fit", "a schema contains itself"),)))
    assert not made.fits
    assert made.as_json()["fit"] is False
