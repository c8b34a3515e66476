"""Which columns a key fills: by name, exactly, or refused with the nearest name."""

import pytest

from tidemark.domain.columns.types import INT, KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.key_columns import key_targets, named_parts

TABLE = Struct((Field("id", LONG), Field("tenant", STRING), Field("small", INT), KAFKA_COLUMN))


def key(**fields):
    return Struct(tuple(Field(name, kind) for name, kind in fields.items()))


@pytest.mark.parametrize(
    ("fields", "struct", "expected"),
    [
        (["id", "tenant"], key(tenant=STRING, id=LONG), {"id": "id", "tenant": "tenant"}),
        (["id"], key(id=INT), {"id": "id"}),
        (["id"], key(order_id=LONG), {"id": "order_id"}),
        (["id"], key(order_id=LONG, _extra=STRING), {"id": "order_id"}),
        (["id"], key(id=LONG, shard=INT), {"id": "id"}),
        ([], key(id=LONG, shard=INT, _kafka=INT), {"id": "id"}),
    ],
)
def test_columns_stand_for_the_fields_of_their_name(fields, struct, expected):
    assert named_parts(TABLE, fields, struct) == expected


@pytest.mark.parametrize(
    ("fields", "struct", "reason"),
    [
        (["tenat"], key(tenant=STRING), "there is no column tenat (did you mean tenant?)"),
        (["_kafka"], key(id=LONG), "there is no column _kafka"),
        (
            ["id", "tenant"],
            key(id=LONG, tennant=STRING),
            "the key has no field tenant (did you mean tennant?)",
        ),
        (["id", "tenant"], key(id=LONG), "the key has no field tenant"),
        (["small"], key(small=LONG), "column small is int, and the key holds long"),
        ([], key(tenant=LONG), "column tenant is string, and the key holds long"),
    ],
)
def test_what_cannot_be_exact_is_refused(fields, struct, reason):
    with pytest.raises(SchemaUnsupported) as found:
        named_parts(TABLE, fields, struct)
    assert reason in str(found.value)


def test_targets_are_columns_of_the_table():
    assert key_targets(TABLE, ["id"]) == {"id": LONG}


def test_a_key_in_another_unit_is_refused():
    micros = Struct((Field("at", LONG, meaning="microseconds since midnight"),))
    assert named_parts(micros, ["at"], micros) == {"at": "at"}
    with pytest.raises(SchemaUnsupported, match="plain"):
        named_parts(micros, ["at"], key(at=LONG))
