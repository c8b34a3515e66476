"""Rule: a Protobuf table is of the message that its records name, not of the one that stands first in the file."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.access.table_state import OWNED, TableState
from tidemark.engine.schema.record_types import named_most
from tidemark.engine.schema.writers import MESSAGE, TopicSchemas, read_schemas

HEAD = 'syntax = "proto3"; package shop;'
HELPER = "message Address { string id = 1; }"
NESTED = "message Order { int64 id = 1; message Line { int32 n = 1; } }"
OLD = RegisteredSchema(7, 1, "PROTOBUF", f"{HEAD} {HELPER} {NESTED}")
NEW = RegisteredSchema(6, 2, "PROTOBUF", f"{HEAD} message Head {{ bool a = 1; }} {HELPER} {NESTED}")
LEDGER = Ledger(cluster_id="c", topic_id="t", topic="orders")


def value(index: bytes, schema_id: int = 7) -> bytes:
    """A value of the wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + index + b"\x08\x01"


ADDRESS, ORDER, LINE = value(b"\0"), value(b"\x02\x02"), value(b"\x04\x02\0")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([ORDER], "shop.Order"),
        ([ADDRESS, ORDER, ORDER], "shop.Order"),
        ([ORDER, ADDRESS], "shop.Address"),
        ([value(b"\x02\0"), ADDRESS, ORDER], "shop.Address"),
        ([LINE], "shop.Order.Line"),
        ([ADDRESS, value(b"\x02\x04", 6), value(b"\x02\x04", 6)], "shop.Order"),
        ([value(b"\0", 8), value(b"\0", 8), ORDER], "shop.Order"),
        ([value(b"\x02\x08"), b"", b"\x01{}", b"\0\0\0\0\x07"], None),
        ([], None),
    ],
    ids=["one", "most", "tie", "both spellings", "nested", "versions", "foreign ids", "none", "empty"],
)
def test_the_message_that_most_values_name_is_it(values: list[bytes], named: str | None) -> None:
    """Given values of two versions, other subjects and garbage, then those of the subject's own files decide by their index, of equally many the first in the oldest file."""
    assert named_most([NEW, OLD], values) == named


def read(
    version: RegisteredSchema, state: TableState | None = None, topic: Topic | None = None, **said: Any
) -> TopicSchemas:
    """What is known of a topic without a record; without a `topic` Kafka is not to be asked."""
    described = {} if topic is None or not topic.end else {"orders": topic}
    kafka = {"kafka": lambda _: SimpleNamespace(describe=lambda *_, **__: described)} if topic else {}
    lake: Any = SimpleNamespace(registry=lambda _: SimpleNamespace(versions=lambda _: (version,)), **kafka)
    contract = Contract.model_validate({"topic": "orders", "table": "shop.orders", "value": said})
    return read_schemas(lake, contract, state)


EMPTY = Topic("orders", "c", "t", {0: 0}, {0: 0}, {0: 0})
MISSING = Topic("orders", "c", "t", {}, {}, {})
EXPIRED = Topic("orders", "c", "t", {0: 5}, {0: 5}, {0: 5})


@pytest.mark.parametrize("topic", [EMPTY, MISSING, EXPIRED], ids=["empty", "missing", "expired"])
def test_without_a_record_none_of_several_messages_is_taken(topic: Topic) -> None:
    """Given a file with several messages and no record, then there is no table yet, and why is told; one inside another is no choice."""
    found = read(OLD, topic=topic)
    assert found.wanted() is None
    assert "2 messages, shop.Address, shop.Order: the first record says" in found.undecided
    alone = read(RegisteredSchema(7, 1, "PROTOBUF", f"{HEAD} {NESTED}"), topic=topic)
    assert (alone.undecided, alone.message) == ("", "shop.Order")


@pytest.mark.parametrize(
    ("version", "state", "said", "message"),
    [
        (OLD, None, {"message": "shop.Order"}, "shop.Order"),
        (RegisteredSchema(7, 1, "PROTOBUF", f"{HEAD} {HELPER}"), None, {}, "shop.Address"),
        (OLD, TableState("shop.orders", exists=True, properties={MESSAGE: "shop.Order"}), {}, "shop.Order"),
        (
            OLD,
            TableState(
                "shop.orders", exists=True, properties={OWNED: "orders"}, ledger=LEDGER, columns=Struct(())
            ),
            {},
            "shop.Address",
        ),
    ],
    ids=["declared", "one message", "made", "made by an earlier Tidemark"],
)
def test_where_contract_table_or_file_say_it_no_record_is_looked_at(
    version: RegisteredSchema, state: TableState | None, said: dict[str, Any], message: str
) -> None:
    """Given a lake without Kafka, then the message is known all the same."""
    assert read(version, state, **said).message == message


def test_while_kafka_is_down_no_message_is_guessed(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a broker that does not answer, then a table is neither planned nor made of the first message."""
    monkeypatch.setattr(lake, "registry", lambda _: SimpleNamespace(versions=lambda _: (OLD,)))
    with pytest.raises(Outage) as outage:
        read_schemas(lake, Contract.model_validate({"topic": "new", "table": "shop.new"}), None)
    assert outage.value.state == "kafka_down"
