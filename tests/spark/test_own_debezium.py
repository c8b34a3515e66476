"""Debezium's JSON in `tidemark/jvm` beside the Python decoder: the same rows and keys, skipped and refused alike."""

from random import Random
from typing import Any

import pytest
from both_decoders import compared
from pyspark.sql import SparkSession
from random_debezium import FIELDS, Changes, text
from random_json import Maker
from seeds import first

from tidemark.domain.formats.debezium import document_columns, json_documents
from tidemark.domain.formats.json_columns import JsonDocuments, columns
from tidemark.domain.formats.json_nodes import Leaf, Object, Property
from tidemark.engine.decode.on_server import NAME, name_of


def values_of(kind: str, seed: int) -> list[tuple[int, bytes]]:
    """Good ones, ones with odd parts, damaged ones."""
    chance = Random(seed)
    made = [text(getattr(Changes(chance, wild), kind)()) for wild in (0.0, 0.02, 0.08) for _ in range(400)]
    maker = Maker(chance)
    return [(0, value) for value in [*made, *(maker.damaged(chance.choice(made)) for _ in range(200))]]


@pytest.mark.parametrize("seed", first(2, of=4))
@pytest.mark.parametrize("envelope", ["debezium", "debezium_flat"])
def test_changes_are_read_alike(spark: SparkSession, envelope: Any, seed: int) -> None:
    fields = FIELDS if seed else None
    documents = json_documents(fields, envelope, truncates=seed % 2 == 1)
    assert name_of({0: documents}, document_columns(documents), 0) != NAME
    values = values_of("flat" if envelope == "debezium_flat" else "enveloped", seed)
    apart, causes = compared(spark, {0: documents}, document_columns(documents), values)
    assert not apart, apart[:3]
    wanted = {None, "skip", "undecodable", "type_mismatch", "invalid_against_schema"}
    assert wanted - ({"invalid_against_schema"} if fields is None else set()) <= set(causes)
    assert causes[None] > 400, causes


@pytest.mark.parametrize("fields", [None, FIELDS])
@pytest.mark.parametrize(
    ("envelope", "cause"), [("debezium_flat", None), ("debezium", "invalid_against_schema")]
)
def test_a_null_is_a_flat_delete_in_both(spark: SparkSession, envelope: Any, cause: Any, fields: Any) -> None:
    """Given a NULL as Connect writes it, with its schema and without, then a row where flat, and none in an envelope."""
    documents = json_documents(fields, envelope, truncates=False)
    values = [
        b"null",
        b" null\n",
        *(b'{"payload": null, "schema": %s}' % s for s in (b"null", b'{"type": "x"}')),
    ]
    apart, causes = compared(spark, {0: documents}, document_columns(documents), [(0, v) for v in values])
    assert (apart, causes) == ([], {cause: len(values)})


@pytest.mark.parametrize("names", [("id",), ("id", "day")])
@pytest.mark.parametrize("shape", ["key", "part_of_key"])
def test_keys_are_read_alike(spark: SparkSession, shape: Any, names: tuple[str, ...]) -> None:
    leaves = {"id": Leaf("long"), "day": Leaf("date")}
    documents = JsonDocuments(Object(tuple(Property(name, leaves[name]) for name in names)), shape=shape)
    assert name_of({0: documents}, columns(documents), 0) != NAME
    apart, causes = compared(spark, {0: documents}, columns(documents), values_of("key", 1))
    assert not apart, apart[:3]
    assert {None, "type_mismatch", "undecodable"} <= set(causes)
