"""Rule: a table that a newer Tidemark has made is refused by name, not misread."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.columns.types import TYPE_RULES, TYPE_RULES_PROPERTY
from tidemark.domain.errors import Stopped
from tidemark.engine.access.table_state import read_state

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("rules", [str(TYPE_RULES + 1), "2.1"])
def test_columns_made_by_newer_type_rules_are_left_alone(tmp_path: Path, rules: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    catalog.create_table("shop.known", COLUMNS, properties={TYPE_RULES_PROPERTY: str(TYPE_RULES)})
    catalog.create_table("shop.foreign", COLUMNS)
    catalog.create_table("shop.newer", COLUMNS, properties={TYPE_RULES_PROPERTY: rules})
    assert read_state(catalog, "shop.known").exists
    assert read_state(catalog, "shop.foreign").exists
    with pytest.raises(Stopped, match=f"type rules {rules} of a newer Tidemark") as stopped:
        read_state(catalog, "shop.newer", required=False)
    assert (stopped.value.state, stopped.value.table) == ("misconfigured", "shop.newer")
