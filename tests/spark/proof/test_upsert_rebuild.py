"""Rule: an upsert table whose history is gone is made anew where that is exact; where it is not, someone has to say so."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf

import oracle
import pytest
from dying import dying_at
from upserted import FIELDS, Upserted

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Refused
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.expire import expire
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.maintain.named_snapshots import named_snapshots
from tidemark.engine.merge import merge
from tidemark.engine.operate.accept_upsert import accept_either
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.properties import set_properties
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test", run_id="r")


def new_append_table(made):
    """Someone drops the append table and lets its topic be loaded again."""
    made.lakehouse.spark().sql(f"DROP TABLE {made.append.name} PURGE")
    accept_either(made.lakehouse.lake, made.append.contract, "first-load", ADA)
    assert made.append.run(loaded_before=True).error is None


def newest(made):
    return oracle.ledgers(made.table())[-1]


def stops_with(made, **how):
    return catch_up_merges(made.lakehouse.lake, made.current, "test", **how).error["state"]


def loads(made, times):
    for n in range(times):
        made.send((1, f"a{n}"))
        made.append.run()


def expired(made):
    """The append table's history, as far as nobody needs it."""
    lake, contract = made.lakehouse.lake, made.append.contract
    named = partial(named_snapshots, lake, contract, contract.table)
    assert expire(
        lake, contract.table, Snapshots(max_age="1s", min_keep=1), named, until=inf, dry_run=False
    ).acted


def accept(made):
    return accept_either(made.lakehouse.lake, made.current.contract, "first-load", ADA)


def test_history_that_is_gone_is_made_anew_and_never_of_less_without_a_word(lakehouse, monkeypatch):
    """Given an append table that was dropped and loaded again, then the map is rebuilt; given rows that retention took,
    rows that someone else wrote, or an upsert table that is gone, then it stops until that is accepted, and is made of
    what is there."""
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
    with dying_at(monkeypatch, "unrecorded"):
        accept_either(lakehouse.lake, made.current.contract, "first-load", replace(ADA, run_id="dies"))
    repeated = accept_either(
        lakehouse.lake, made.current.contract, "first-load", Signature("bob", "again", run_id="b")
    )
    assert (repeated.by, repeated.reason, repeated.run_id) == ("ada", "a test", "dies"), "who died is logged"
    assert made.rows() == {1: "c", 3: "x", 4: "d"}, "until the next merge"
    made.merge()
    assert made.rows() == {1: "c", 3: "x"}
    assert (newest(made)["action"], newest(made)["why"]) == ("rebuild", "accepted by ada: a test")

    lakehouse.spark().sql(f"INSERT INTO {made.name} SELECT * FROM {made.name} WHERE id = 1")
    made.send((1, "d"))
    made.append.run()
    error = catch_up_merges(lakehouse.lake, made.current, "test").error
    assert (error["state"], "holds 3 rows of 2 keys" in error["message"]) == ("table_incompatible", True)
    assert f"Drop it, then tidemark accept {made.name} --first-load" in error["message"]

    lakehouse.spark().sql(f"DROP TABLE {made.name} PURGE")
    assert stops_with(made, loaded_before=True) == "table_missing"
    assert stops_with(made) == "ledger_missing", "also for whoever does not know that it was there"
    assert "silent for longer" in foresee_upsert(lakehouse.lake, made.current).changes[-1]["reason"]
    accept(made)
    made.both((5, "e"))
    assert made.rows() == {1: "d", 3: "x", 5: "e"}


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_what_a_first_merge_reads_stays_however_long_it_takes(lakehouse, monkeypatch, format_version):
    """Given a first merge or a rebuild at work, when batches come in and the append table's snapshots expire, then it
    is published as it was planned, and leaves nothing behind there."""
    made = Upserted(lakehouse, partitions=1, format_version=format_version)
    loads(made, 2)
    read, planned = merge.read_batch, []

    def takes_long(lake, plan):
        planned.append(plan.action)
        if plan.action in {"first", "rebuild"}:
            loads(made, 2)
            time.sleep(1)
            expired(made)
        return read(lake, plan)

    monkeypatch.setattr(merge, "read_batch", takes_long)
    made.merge()
    assert made.rows() == {1: "a1"}
    new_append_table(made)
    made.merge()
    assert planned == ["first", "rebuild"], "each was published at once"
    assert made.append.branches == set()
    made.merge()
    assert made.rows() == {1: "a1"}


def test_an_upsert_table_that_is_declared_later_knows_what_it_was_not_told(lakehouse):
    """Given a topic that was read without `upsert`, when tombstones were counted meanwhile, then nothing is merged until
    they are read again, or someone accepts that the keys stay, and those that come afterwards are as ever."""
    made = Upserted(lakehouse, partitions=2)
    made.append = without_upsert(made)
    made.send((1, "a"), (2, "b"), (3, "c"), (1, None), (4, "d"), (4, None), (4, "again"))
    assert made.append.run().rows.tombstones == 2
    made.declare()
    lakehouse.close()
    assert stops_with(made) == "misconfigured"
    plan = foresee_upsert(lakehouse.lake, made.current)
    assert plan.verdict == "impossible"
    for p in (0, 1):
        words = f"tidemark replay {made.append.name} --partition {p} --from 0 --to {made.append.ledger['next'][str(p)]}"
        assert words in plan.changes[-1]["reason"]
        replay_range(lakehouse.lake, made.append.contract, p, 0, int(made.append.ledger["next"][str(p)]), ADA)
    made.merge()
    assert made.rows() == {2: "b", 3: "c", 4: "again"}

    made.append = without_upsert(made)
    made.send((3, None), (5, "e"))
    assert made.append.run().rows.tombstones == 1
    made.declare()
    lakehouse.close()
    assert stops_with(made) == "misconfigured"
    accept(made)
    made.both((6, "f"), (2, None))
    assert made.rows() == {3: "c", 4: "again", 5: "e", 6: "f"}
    assert newest(made)["no_tombstones"] == [0, 1]
    for p in (0, 1):
        replay_range(lakehouse.lake, made.append.contract, p, 0, int(made.append.ledger["next"][str(p)]), ADA)
    made.merge()
    assert made.rows() == {4: "again", 5: "e", 6: "f"}
    assert newest(made)["no_tombstones"] is None, "it must not cover others that are counted later"


def test_deletes_of_an_earlier_epoch_that_are_no_rows_are_named_too(lakehouse):
    """Given tombstones that were counted before the topic was made anew, when `upsert` is declared, then nothing is
    merged until someone accepts that their keys stay, through a further epoch as well."""
    made = Upserted(lakehouse, partitions=1)
    made.append = without_upsert(made)
    made.send((1, "a"), (2, "b"), (1, None))
    assert made.append.run().rows.tombstones == 1
    begin_epoch(made)
    made.send((3, "c"))
    made.append.run()
    made.declare()
    lakehouse.close()
    outcome = catch_up_merges(lakehouse.lake, made.current, "test")
    assert outcome.error["state"] == "misconfigured"
    assert "1 tombstones or truncates of earlier epochs" in outcome.error["message"]
    assert foresee_upsert(lakehouse.lake, made.current).verdict == "impossible"
    accept(made)
    made.merge()
    assert made.rows() == {1: "a", 2: "b", 3: "c"}
    begin_epoch(made)
    made.both((2, None), (4, "d"))
    assert made.rows() == {1: "a", 3: "c", 4: "d"}


def begin_epoch(made):
    made.topic.recreate(1)
    made.append.run()
    accept_either(made.lakehouse.lake, made.append.contract, "new-epoch", ADA)


def test_rows_of_a_backfill_from_elsewhere_are_not_left_out_without_a_word(lakehouse):
    """Given rows from another table in the append table, when `upsert` is declared, then it stops until that is accepted:
    nothing says which of them is a key's newest."""
    made = Upserted(lakehouse, partitions=1)
    made._contract["value"] = {"format": "json", "fields": {**FIELDS, "at": "timestamp", "seen": "timestamp"}}
    made._contract["table_properties"] = {"gc.enabled": False, "write.format.default": "avro"}
    made.append = without_upsert(made)
    made.send((1, "a"))
    made.append.run()
    lakehouse.spark().sql(
        f"CREATE TABLE {made.name}_old USING iceberg AS SELECT 7L AS id, 'eu' AS region, 'old' AS v, "
        "1L AS ts, TIMESTAMP '2020-01-01 00:00:00' AS at, TIMESTAMP '2020-01-01 01:00:00' AS seen"
    )
    since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    asked = Asked(
        source=f"table:{made.current.contract.table}_old", since=since, until=until, time_column="at"
    )
    for step in (asked, Asked(cutover=True)):
        backfill(lakehouse.lake, made.append.contract, step, ADA)
    assert reconcile(lakehouse.lake, made.append.contract).sound, "whatever the files are"
    assert not lakehouse.catalog.table_exists(f"{made.append.contract.table}_backfill"), (
        "whoever else may own files"
    )
    orphans = list(maintain(lakehouse.lake, made.append.contract, ("orphan_files",)))
    assert {each.error for each in orphans} == {None}
    assert "gc.enabled" in orphans[0].reason
    with pytest.raises(Refused, match="by another time than seen"):
        backfill(lakehouse.lake, made.append.contract, replace(asked, time_column="seen"), ADA)
    made.declare()
    lakehouse.close()
    outcome = catch_up_merges(lakehouse.lake, made.current, "test")
    assert (outcome.error["state"], "from elsewhere" in outcome.error["message"]) == ("misconfigured", True)
    accept(made)
    made.merge()
    made.both((2, "b"))
    assert made.rows() == {1: "a", 2: "b"}


def without_upsert(made):
    return made.lakehouse.table(made.topic, **{k: v for k, v in made._contract.items() if k != "upsert"})


def test_an_upsert_table_whose_own_history_someone_cut_still_follows_its_append_table(lakehouse):
    """Given an upsert table of which a foreign expirer left the compacted rows and the tag, when the append table is
    taken back, then it is made anew, and what was taken back is gone."""
    made = Upserted(lakehouse, partitions=1)
    made.both((1, "a"))
    target = made.append.head
    made.both((2, "b"), (1, None))
    rewrite = f"rewrite_data_files(table => '{made.name}', options => map('rewrite-all', 'true'))"
    for call in (
        rewrite,
        rewrite,
        f"expire_snapshots(table => '{made.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
    ):
        lakehouse.spark().sql(f"CALL lake.system.{call}")
    assert len(made.table().metadata.snapshots) == 2
    rollback(lakehouse.lake, made.append.contract, Target(target), ADA)
    made.merge()
    assert made.rows() == {1: "a"}
    assert newest(made)["action"] == "rebuild"


def test_an_upsert_table_that_has_paused_for_long_goes_on_by_offsets(lakehouse):
    """Given an append table that has had more commits than snapshots may stay since its upsert table last merged, when they expire, then the next merge takes what came since, and makes nothing anew; so it does when a rollback went to what came since."""
    made = Upserted(lakehouse, partitions=1)
    made._contract["maintenance"] = {"snapshots": {"max_age": "1s", "min_keep": 1, "max_count": 2}}
    made.declare()
    made.both((1, "a"), (2, "b"))
    merged = made.append.head
    loads(made, 5)
    for _ in range(2):
        found = list(maintain(lakehouse.lake, made.append.contract, ("snapshot_expiry",)))
        assert {each.error for each in found} == {None}
        main = [each.snapshot_id for each in ancestors(made.append.iceberg().metadata, made.append.head)]
        assert len(main) == 5, "four, and the ledger of the oldest of them"
        assert made.append.iceberg().metadata.snapshot_by_id(merged)
    made.merge()
    assert made.rows() == {1: "a4", 2: "b"}
    assert newest(made)["action"] == "merge"
    loads(made, 1)
    target = made.append.head
    loads(made, 1)
    rollback(lakehouse.lake, made.append.contract, Target(target), ADA)
    resume(lakehouse.lake, made.append.contract, ADA)
    loads(made, 3)
    list(maintain(lakehouse.lake, made.append.contract, ("snapshot_expiry",)))
    assert len(list(ancestors(made.append.iceberg().metadata, made.append.head))) == 8
    made.merge()
    assert made.rows() == {1: "a2", 2: "b"}
    assert newest(made)["action"] == "merge"


def test_deletes_that_were_read_for_another_key_are_not_left_out_without_a_word(lakehouse):
    """Given tombstones that were read for the Kafka key, when a column becomes the key, then nothing is merged until a
    replay gives them theirs, or someone accepts that their rows stay, which covers no later ones."""
    made = Upserted(lakehouse, partitions=2)
    by_kafka_key = {"key": None, "upsert": {"keys": ["_kafka.key"]}}
    made.declare(**by_kafka_key)
    made.send((1, "a"), (2, "b"), (3, "c"), (4, "d"), (1, None), (4, None), (4, "again"))
    assert made.append.run().rows.written == 7
    by_id(made, "by_id")
    told = stop(made)
    assert f"2 deletes of {made.append.name} lack a part of the key (id)" in told
    replays = {
        p: (f"tidemark replay {made.append.name} --partition {p} --from {at} ", at)
        for p, at in ((0, 2), (1, 2))
    }
    for p, (words, at) in replays.items():
        assert f"{words}--to {at + 1} " in told
        replay_range(lakehouse.lake, made.append.contract, p, at, at + 1, ADA)
    made.merge()
    assert made.rows() == {2: "b", 3: "c", 4: "again"}
    with pytest.raises(Refused, match="nothing to accept"):
        accept(made)

    made.declare(**by_kafka_key)
    made.send((3, None))
    made.append.run()
    by_id(made, "by_id")
    assert "1 deletes of" in stop(made), "also a table that has rows"
    accept(made)
    made.merge()
    assert made.rows() == {2: "b", 3: "c", 4: "again"}
    assert newest(made)["no_keys"] == [0, made.append.ledger["next"]]
    assert newest(made)["action"] == "merge", "not made anew, of what retention has left"
    made.both((5, "e"), (2, None))
    assert made.rows() == {3: "c", 4: "again", 5: "e"}
    new_append_table(made)
    made.merge()
    assert made.rows() == {4: "again", 5: "e"}, "read anew they name their rows"

    made.declare(**by_kafka_key)
    made.send((5, None))
    made.append.run()
    by_id(made, "by_id_anew")
    assert f"1 deletes of {made.append.name}" in stop(made)


def by_id(made, table):
    """The contract names the column as key, and an upsert table for it."""
    name = f"{made.append.contract.namespace}.{made.topic.name}_{table}"
    made.declare(upsert={"keys": ["id"], "table": name})
    made.current = upsert_table_of(made.append.contract)
    made.name = made.current.contract.table
    made.lakehouse.close()


def stop(made):
    error = catch_up_merges(made.lakehouse.lake, made.current, "test").error
    assert error["state"] == "misconfigured"
    return error["message"]
