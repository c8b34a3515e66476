"""Rule: a column takes part in a key by its name, whatever that begins with; only Tidemark's own columns do not."""

from typing import Any

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.formats.json_nodes import EXTRA
from tidemark.engine.schema.keys import key_decoding

TABLE = Struct((Field("_id", LONG), Field("note", STRING), Field(EXTRA, STRING), CDC, KAFKA_COLUMN))


def test_a_json_key_fills_a_column_whose_name_begins_with_an_underscore() -> None:
    """Given a table by `_id`, when a tombstone's key is JSON, then `_id` comes out of it."""
    contract = Contract.model_validate(
        {"topic": "orders", "table": "shop.orders", "key": {"format": "json"}, "upsert": {"keys": ["_id"]}}
    )
    no_registry: Any = None
    found = key_decoding(no_registry, contract, TABLE)
    assert found is not None
    assert found.columns == {"_id": "_id", "note": "note"}
