"""Rules of the upsert block: its table is a contract of its own, keys and order must be there and comparable."""

import pytest

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.partitioning import parse_partition_field
from tidemark.domain.columns.types import (
    BINARY,
    DOUBLE,
    KAFKA_COLUMN,
    LONG,
    STRING,
    VARIANT,
    Field,
    ListType,
    Struct,
)
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import (
    SOFT_COLUMN,
    identifier_fields,
    upsert_columns,
    upsert_faults,
    upsert_table_of,
    upsert_tables,
)

COLUMNS = Struct(
    (
        Field("id", LONG),
        Field("share", DOUBLE),
        Field("account", Struct((Field("id", STRING),))),
        Field("tags", ListType(STRING)),
        Field("raw", BINARY),
        KAFKA_COLUMN,
    )
)


def current(**upsert):
    given = {"keys": ["id"], "table": "s.t_current", **upsert}
    return upsert_table_of(
        Contract(
            topic="t", table="s.t", partition_by=["id"], sort_by=["share"], target_lag="30s", upsert=given
        )
    )


def test_without_a_block_there_is_no_upsert_table():
    assert upsert_table_of(Contract(topic="t", table="s.t")) is None
    assert list(upsert_tables([Contract(topic="t", table="s.t"), current().append])) == ["s.t_current"]


def test_layout_and_lag_are_those_of_the_append_table_unless_said_otherwise():
    same, other = (
        current().contract,
        current(partition_by=[], sort_by=[], format_version=3, target_lag="5m").contract,
    )
    assert (same.table, same.topic, [str(p) for p in same.partition_by]) == ("s.t_current", "s.t", ["id"])
    assert (same.sort_by, same.format_version, same.target_lag.total_seconds()) == (("share",), 2, 30)
    assert (other.partition_by, other.sort_by, other.format_version) == ((), (), 3)
    assert other.target_lag.total_seconds() == 300


def test_its_digest_is_of_its_own_content_whatever_was_asked_for_before():
    """Given an append table whose digest a run or the definitions have asked for, then the upsert table's is the same as without that."""
    asked = current()
    assert asked.append.digest != asked.contract.digest == current().contract.digest


def test_an_offset_counts_within_its_epoch_and_needs_no_memory():
    assert current().order == (("_kafka", "epoch"), ("_kafka", "offset"))
    assert not current().remembers
    assert current(order_by=["id"]).remembers
    assert current(order_by=["id"], deletes="soft").remembers, "a mark has room for one place alone"
    assert current(order_by=["_kafka.timestamp"]).remembers, "record times may go back"


@pytest.mark.parametrize(
    ("keys", "identifiers"),
    [
        (["id"], ("id",)),
        (["id", "raw"], ("id", "raw")),
        (["share", "id"], ("id",)),
        (["account.id"], ()),
        (["_kafka.key"], ()),
    ],
)
def test_keys_that_can_be_are_required(keys, identifiers):
    found = upsert_columns(current(keys=keys), COLUMNS)
    assert identifier_fields(current(keys=keys), COLUMNS) == identifiers
    assert tuple(f.name for f in found.fields if f.required) == identifiers


def test_soft_deletes_add_their_mark():
    assert upsert_columns(current(deletes="soft"), COLUMNS).fields[-1] == SOFT_COLUMN
    taken = Struct((*COLUMNS.fields, SOFT_COLUMN))
    assert "Say `deletes: hard`" in upsert_faults(current(deletes="soft"), taken)[0]
    assert [f.name for f in upsert_columns(current(deletes="soft"), taken).fields].count("_is_deleted") == 1


def test_keys_and_order_must_be_there_and_comparable():
    assert upsert_faults(current(keys=["account.id", "_kafka.key"], order_by=["share"]), COLUMNS) == []
    assert "did you mean id?" in upsert_faults(current(keys=["ids"]), COLUMNS)[0]
    assert "cannot be compared" in upsert_faults(current(order_by=["tags"]), COLUMNS)[0]
    assert "cannot be compared" in upsert_faults(current(keys=["account"]), COLUMNS)[0]


def test_a_document_is_no_key_and_has_no_order():
    """Given a VARIANT, then it is refused as key and order column, and where a table is sorted or partitioned by it."""
    columns = Struct((*COLUMNS.fields, Field("doc", VARIANT)))
    for said in ({"keys": ["doc"]}, {"order_by": ["doc"]}):
        assert "doc is variant, which cannot be compared" in upsert_faults(current(**said), columns)[0]
    assert "which has no order" in layout_faults(columns, [], ["doc"])[0]
    assert "does not apply to variant" in layout_faults(columns, [parse_partition_field("doc")], [])[0]
