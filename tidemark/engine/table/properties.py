"""Table properties, set and removed by Spark: PyIceberg does not write every table."""

from collections.abc import Mapping

from tidemark.domain.columns.spark_types import property_list, quoted_text
from tidemark.engine.access.lake import Lake


def set_properties(lake: Lake, table: str, properties: Mapping[str, str | None]) -> None:
    """Set table properties; None removes one."""
    identifier = lake.identifier(table)
    gone = [quoted_text(key) for key, value in properties.items() if value is None]
    kept = {key: value for key, value in properties.items() if value is not None}
    if kept:
        lake.spark().sql(f"ALTER TABLE {identifier} SET TBLPROPERTIES ({property_list(kept)})")
    if gone:
        lake.spark().sql(f"ALTER TABLE {identifier} UNSET TBLPROPERTIES IF EXISTS ({', '.join(gone)})")
