"""A commit that whoever makes it finds again, whatever others commit meanwhile."""

from pyspark.sql import DataFrame

from tidemark.domain.errors import Overtaken
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import load

ATTEMPT = "tidemark.attempt"


def append_marked(lake: Lake, table: str, rows: DataFrame, mark: str) -> int:
    """Append `rows`, also none, in one commit whose snapshot says `mark`; that snapshot's id.

    Raises:
        Overtaken: it was expired, or the table dropped, in this very moment.
    """
    rows.writeTo(lake.identifier(table)).option(f"snapshot-property.{ATTEMPT}", mark).append()
    found = load(lake.catalog, table)
    made = found.metadata.snapshots if found else []
    for each in made:
        if summary_of(each).get(ATTEMPT) == mark:
            return each.snapshot_id
    raise Overtaken(table)
