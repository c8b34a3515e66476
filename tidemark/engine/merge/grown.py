"""Partitions that a topic got after its rows were merged: keys move there, and offsets begin anew."""

from collections.abc import Iterable

from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.ledger.offsets import Offsets
from tidemark.engine.merge.pair import Pair


def grown(pair: Pair, merged: Iterable[MergeLedger], following: Offsets) -> str:
    """What is to be told where the offset alone is the order and one of `merged` lacks partitions of `following`.

    Empty: nothing. Ledgers name every partition that their epoch had, also those without a record. Whether a key has
    moved they do not say, so this stops nothing.
    """
    if pair.append is None or not pair.current.by_offset:
        return ""
    history = pair.append.uuid, pair.append.ledger.epoch
    known = [each.next for each in merged if (each.append_uuid, each.epoch) == history]
    came = sorted({p for each in known for p in following if p not in each})
    if not came:
        return ""
    listed = ", ".join(map(str, came))
    return (
        f"{pair.current.append.topic} got partitions after rows had been merged ({listed}): of a key that moved there "
        "the older row wins until the offsets there have passed its own, for they are the order. Name a column of the "
        "source in upsert.order_by, and another upsert.table: it is made anew from the append rows"
    )
