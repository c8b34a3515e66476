"""Rule: an upsert table whose history is gone is made anew where that is exact; where it is not, someone has to say so."""

import oracle
import pytest
from upserted import Upserted

from tidemark.domain.errors import Refused
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.lane.merge_catch_up import merge_up
from tidemark.engine.operate.accept_upsert import accept_either
from tidemark.engine.table.create import set_properties
from tidemark.engine.table.operations import Signature

ADA = Signature("ada", "a test", run_id="r")


def new_append_table(made):
    """Someone drops the append table and lets its topic be loaded again."""
    made.lakehouse.spark().sql(f"DROP TABLE {made.append.name} PURGE")
    accept_either(made.lakehouse.lake, made.append.contract, "first-load", ADA)
    assert made.append.run(known=True).error is None


def newest(made):
    return oracle.ledgers(made.table())[-1]


def stops_with(made, **how):
    return merge_up(made.lakehouse.lake, made.current, "test", **how).error["state"]


def accept(made):
    return accept_either(made.lakehouse.lake, made.current.contract, "first-load", ADA)


def test_history_that_is_gone_is_made_anew_and_never_of_less_without_a_word(lakehouse):
    """Given an append table that was dropped and loaded again, then the map is rebuilt; given rows that retention took,
    or an upsert table that is gone, then it stops until that is accepted, and is made of what is there."""
    made = Upserted(lakehouse, partitions=1)
    made.both((1, "a"), (2, "b"), (2, None), (4, "d"))
    new_append_table(made)
    made.both((1, "c"), (3, "x"))
    assert made.rows() == {1: "c", 3: "x", 4: "d"}
    told = newest(made)
    assert (told["action"], "another table" in told["why"]) == ("rebuild", True)
    with pytest.raises(Refused, match="nothing to accept"):
        accept(made)
    with pytest.raises(Refused, match="reads no topic"):
        accept_either(lakehouse.lake, made.current.contract, "new-epoch", ADA)

    new_append_table(made)
    lakehouse.spark().sql(f"DELETE FROM {made.append.name} WHERE id = 4")
    set_properties(lakehouse.lake, made.append.name, {EXPIRED_BEFORE: "2026-01-01T00:00:00+00:00"})
    assert stops_with(made) == "ledger_missing"
    assert made.rows() == {1: "c", 3: "x", 4: "d"}
    accept(made)
    assert made.rows() == {1: "c", 3: "x", 4: "d"}, "until the next merge"
    made.merge()
    assert made.rows() == {1: "c", 3: "x"}
    assert (newest(made)["action"], newest(made)["why"]) == ("rebuild", "accepted by ada: a test")

    lakehouse.spark().sql(f"DROP TABLE {made.name} PURGE")
    assert stops_with(made, known=True) == "table_missing"
    accept(made)
    made.both((5, "e"))
    assert made.rows() == {1: "c", 3: "x", 5: "e"}
