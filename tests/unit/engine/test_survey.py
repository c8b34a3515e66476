"""What `new` proposes for documents without a schema: the columns that their rows will have."""

import json
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

import tidemark.engine.preview.survey as module
from tidemark.domain.columns.types import LONG, STRING, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.plan.proposal import Keys, Seen, Sizes, propose
from tidemark.engine.access import newest_records
from tidemark.engine.access.newest_records import Record
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.preview.survey import (
    _guessed,
    _key_format,
    _of_registry,
    _registered,
    in_payload,
    survey,
)

ROW = {"id": 1, "name": "n"}
SOURCE = {"db": "x", "table": "t", "lsn": 1}


def proposed(*documents):
    value, columns, reasons, _ = _guessed(None, "main", [json.dumps(each).encode() for each in documents])
    return propose(Seen("t", "lake.t", "main", value, columns, Sizes(1, 1, 1), Keys(), reasons=reasons))


def change(op="c", **more):
    return {"before": None, "after": ROW, "source": SOURCE, "op": op, "ts_ms": 1, **more}


def flat(**more):
    return {**ROW, "__op": "c", "__deleted": "false", **more}


@pytest.mark.parametrize(
    ("documents", "envelope"),
    [
        ([change(), change("r")], "debezium"),
        ([change(), change("d", before={"id": 1, "name": "n"}, after=None)], "debezium"),
        ([change(), {"source": SOURCE, "op": "t", "ts_ms": 1}], "debezium"),
        ([{"schema": {"type": "struct", "fields": []}, "payload": change()}], "debezium"),
        ([flat(), flat(__ts_ms=1)], "debezium_flat"),
        ([{"schema": None, "payload": flat()}], "debezium_flat"),
        ([None, flat(), None], "debezium_flat"),
        ([{"schema": {"type": "struct"}, "payload": each} for each in (flat(), None)], "debezium_flat"),
    ],
)
def test_the_columns_of_changes_in_json_are_those_of_the_row(documents, envelope):
    made = proposed(*documents)
    assert made.contract["value"] == {
        "format": "json",
        "fields": {"id": "bigint", "name": "string"},
        "envelope": envelope,
    }
    assert made.fits
    assert "change records of Debezium" in made.reasons[-1].text
    Contract.model_validate({**made.contract, "table": "lake.t"})


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b'{"id": 1}', "json"),
        (b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', "json"),
        (b'{"other": 1}', None),
        (b"1", None),
        (None, None),
        (b"\0\0\0\0\1x", None),
    ],
)
def test_keys_that_tell_the_columns_of_a_delete_are_read(key, found):
    """A delete whose `before` is NULL has no other; bytes of a registry that is not there tell nothing."""
    lake = SimpleNamespace(platform=SimpleNamespace(schema_registry={}))
    columns = Struct((Field("id", LONG), Field("name", STRING)))
    assert _key_format(lake, "t", "main", [Record(key, b"{}"), Record(None, b"{}")], columns) == found


def test_changes_that_bring_no_row_are_one_column():
    made = proposed(change("t", after=None))
    assert made.contract["value"] == {"format": "json", "envelope": "debezium"}


@pytest.mark.parametrize(
    "documents",
    [
        [change(), {"id": 1}],
        [{"op": "c", "source": "web", "after": 1}],
        [{"op": "add", "source": {"a": 1}, "after": 1}],
        [{"op": {"kind": "c"}, "id": 1}, {"op": ["c"], "source": {}, "after": 1}],
        [{"schema": 1, "payload": 2}],
    ],
)
def test_documents_that_are_not_all_changes_are_columns_as_they_are(documents):
    made = proposed(*documents)
    assert "envelope" not in made.contract["value"]
    assert made.contract["value"]["fields"].keys() <= {name for each in documents for name in each}


def wrapped(payload, schema=None):
    return {"schema": schema or {"type": "struct", "fields": []}, "payload": payload}


def test_documents_that_carry_connects_schema_are_told_what_opens_them():
    """Given documents of a connector that is not Debezium's, then the contract loads what is there, and the way to columns is named."""
    made = proposed(wrapped(ROW), wrapped(None))
    assert made.contract["value"]["fields"].keys() == {"schema", "payload"}
    [said] = [each.text for each in made.reasons if "Kafka Connect" in each.text]
    assert "`envelope: debezium_flat`" in said
    assert not any("Kafka Connect" in each.text for each in proposed(ROW, wrapped(ROW)).reasons)


@pytest.mark.parametrize(
    ("value", "documents", "told"),
    [
        ({"fields": {"id": "bigint"}}, [wrapped(ROW), wrapped(None)], True),
        ({"fields": {"id": "bigint"}}, [{"schema": None, "payload": ROW}], True),
        ({"fields": {"id": "bigint"}}, [wrapped(ROW), ROW], False),
        ({"fields": {"id": "bigint"}}, [{**wrapped(ROW), "id": 1}], False),
        ({"fields": {"id": "bigint"}}, [1], False),
        ({"fields": {"id": "bigint"}}, [wrapped("text")], False),
        ({"fields": {"id": "bigint"}}, [], False),
        ({"fields": {"payload": "struct<id: bigint>"}}, [wrapped(ROW)], False),
        ({"fields": {"id": "bigint"}, "envelope": "debezium_flat"}, [wrapped(ROW)], False),
        ({}, [wrapped(ROW)], False),
    ],
)
def test_columns_that_would_all_be_null_are_told(value, documents, told):
    """Given fields that are declared for what is in the payload, then nothing is loaded as NULL without a word."""
    said = Contract.model_validate({"topic": "t", "table": "lake.t", "value": {"format": "json", **value}})
    found = in_payload(said, [json.dumps(each).encode() for each in documents])
    assert ["every column would be NULL" in each for each in found] == [True] * told


def test_documents_without_any_field_that_has_one_type_are_told_to_be_one_column():
    made = proposed({"a": None})
    assert made.contract["value"] == {"format": "json"}
    assert [each.text for each in made.reasons] == [
        "no field can be declared, the document is one column `value` (a: it was always null)"
    ]


class Partition:
    """A consumer of partition 0, and of a group that we may not join; `codes` are what its fetches end with."""

    def __init__(self, *codes):
        self.codes = [(KafkaError.GROUP_AUTHORIZATION_FAILED, -1), *((code, 0) for code in codes)]

    def assign(self, _partitions):
        """Fetches from here on."""

    def consume(self, _most, *, timeout):  # noqa: ARG002 - as librdkafka's
        code, partition = self.codes.pop(0) if self.codes else (None, None)
        if code is None:
            return []
        return [SimpleNamespace(error=lambda: KafkaError(code), partition=lambda: partition)]

    def close(self):
        """Nothing of its own to tell."""


def test_schemas_are_used_as_the_file_inherits_unless_values_name_theirs():
    """Given values that name no schema, when the defaults say that the newest one is theirs, then the topic fits by that."""
    text = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    version = RegisteredSchema(41, 1, "AVRO", text)
    registry = SimpleNamespace(
        versions=lambda _: [version], latest=lambda _: version, by_id={version.id: version}.get
    )
    lake = SimpleNamespace(platform=SimpleNamespace(schema_registry={"main": 1}), registry=lambda _: registry)

    def found(inherited, values=(b"\x02", b"\x04")):
        return _registered(lake, "orders", "main", values, _of_registry({"value": inherited}))

    said, columns, reasons, _ = found({"schema": "by_latest_schema"})
    assert (said["schema"], reasons) == ("by_latest_schema", ())
    assert [field.name for field in columns.fields] == ["id"]
    for inherited in ({}, {"format": "json"}):
        [reason] = found(inherited)[2]
        assert "begin with no schema id" in reason.text
    said, _, reasons, _ = found({"schema": "by_latest_schema"}, [b"\0\0\0\0\x29\x02"])
    assert ("schema" in said, reasons) == (False, ())


@pytest.fixture
def reads(monkeypatch):
    def made(*codes):
        monkeypatch.setattr(newest_records, "Consumer", lambda _: Partition(*codes))
        block = SimpleNamespace(client_properties=dict, group_id_prefix="tidemark")
        topic = Topic("orders", "c", "t", {0: 0}, {0: 5}, {0: 5})
        admin = SimpleNamespace(describe=lambda _: {"orders": topic}, offsets_at=lambda *_: {0: 0})
        lake = SimpleNamespace(
            platform=SimpleNamespace(kafka={"main": block}, schema_registry={}, default_namespace="lake"),
            kafka=lambda _: admin,
        )
        monkeypatch.setattr(newest_records, "PATIENCE", 0.2)
        monkeypatch.setattr(module, "compacted", lambda *_: False)
        return survey(lake, "orders", "main", 10)

    return made


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "permission_denied"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "topic_missing"),
        (KafkaError._TRANSPORT, "kafka_down"),
    ],
)
def test_a_partition_that_cannot_be_read_is_not_taken_for_an_empty_one(reads, code, state):
    with pytest.raises(TidemarkError) as told:
        reads(code)
    assert told.value.fields["state"] == state


@pytest.mark.parametrize("codes", [(), (KafkaError._PARTITION_EOF,)])
def test_a_topic_whose_records_do_not_come_in_time_is_not_called_empty(reads, codes):
    [reason] = reads(*codes).reasons
    assert "none of the 5 offsets of the topic gave a committed record" in reason.text
