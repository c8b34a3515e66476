"""What others have set about retention, out of the way of an expiry that names its snapshots itself.

Spark's procedure applies two ages that its arguments cannot overrule. The table's default age of refs would drop tags
and branches: it is lifted meanwhile, and noted on the table, so that whoever maintains it after a crash puts it back.
A branch's own retention of snapshots would cut main or a branch short: a companion at the same snapshot, without
one, holds them meanwhile. Both work on every format and in every catalog. Only the holder of the lease does this.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.ledger.ledger import BRANCH_PREFIX
from tidemark.engine.access.lake import Lake
from tidemark.engine.faults import pause_point
from tidemark.engine.table.lease import existing
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import TAG_RETENTION_DAYS

DEFAULT_AGE = "history.expire.max-ref-age-ms"
ASIDE = f"tidemark.aside.{DEFAULT_AGE}"
LIFTED = str(2**63 - 1)
COMPANION = f"{BRANCH_PREFIX}keep_"


@contextmanager
def out_of_the_way(lake: Lake, table: str) -> Iterator[None]:
    """While the block runs, only what it names itself expires."""
    _put_back(lake, table)
    metadata = existing(lake, table).metadata
    try:
        _lift_default(lake, table, metadata)
        _accompany(lake, table, metadata)
        pause_point("retention_aside")
        yield
    finally:
        with suppress(Exception):  # the next one does it
            _put_back(lake, table)


def is_aside(metadata: TableMetadata) -> bool:
    """Something that others have set is out of the way: an expiry is at work, or died."""
    return ASIDE in metadata.properties or any(name.startswith(COMPANION) for name in metadata.refs)


def _put_back(lake: Lake, table: str) -> None:
    """As it was before, here or where another maintenance died; a setting made meanwhile stays."""
    metadata = existing(lake, table).metadata
    noted = metadata.properties.get(ASIDE)
    if noted is not None:
        if metadata.properties.get(DEFAULT_AGE) == LIFTED:
            set_properties(lake, table, {DEFAULT_AGE: noted})
        set_properties(lake, table, {ASIDE: None})
    for name in metadata.refs:
        if name.startswith(COMPANION):
            lake.spark().sql(f"ALTER TABLE {lake.identifier(table)} DROP BRANCH IF EXISTS `{name}`")


def _lift_default(lake: Lake, table: str, metadata: TableMetadata) -> None:
    default = metadata.properties.get(DEFAULT_AGE)
    relying = [name for name, ref in metadata.refs.items() if ref.max_ref_age_ms is None and name != "main"]
    if default is not None and relying:
        set_properties(lake, table, {ASIDE: default, DEFAULT_AGE: LIFTED})


def _accompany(lake: Lake, table: str, metadata: TableMetadata) -> None:
    cut_short = [
        ref
        for ref in metadata.refs.values()
        if ref.max_snapshot_age_ms is not None or ref.min_snapshots_to_keep is not None
    ]
    for snapshot in {ref.snapshot_id for ref in cut_short}:
        lake.spark().sql(
            f"ALTER TABLE {lake.identifier(table)} CREATE BRANCH `{COMPANION}{snapshot}` AS OF VERSION {snapshot} "
            f"RETAIN {TAG_RETENTION_DAYS} DAYS"
        )
