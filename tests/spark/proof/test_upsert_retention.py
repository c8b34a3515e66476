"""Rule: what retention has deleted of the append rows neither brings a deleted key back nor takes a key away."""

import json
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf

import pytest
from append_log import AppendLog
from upserted import Upserted

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, Field, Struct
from tidemark.domain.config.contract import Snapshots
from tidemark.domain.errors import Refused
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE, TAKEN, Taken
from tidemark.domain.plan.contract_record import RECORD, remembered
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain import expire_rows as retention
from tidemark.engine.maintain.expire import expire
from tidemark.engine.maintain.expire_rows import expire_rows
from tidemark.engine.maintain.named_snapshots import Named, named_snapshots
from tidemark.engine.merge.pair import own_receipts
from tidemark.engine.operate.accept_upsert import accept_either
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.properties import set_properties

ADA = Signature("ada", "a test", run_id="r")
BAD = [{"sql": "v <> 'bad'"}]
expired = partial(expire_rows, until=inf, dry_run=False)


def retained(made, offset):
    """Retention as it acts: the cut is noted, here as of now, then rows go, here those below an offset."""
    cut = datetime.now(UTC) + timedelta(milliseconds=5)
    set_properties(made.lakehouse.lake, made.append.name, {EXPIRED_BEFORE: cut.isoformat()})
    made.lakehouse.spark().sql(f"DELETE FROM {made.append.name} WHERE _kafka.offset < {offset}")


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=pytest.mark.long)])
def test_an_event_that_comes_out_of_the_quarantine_after_retention(lakehouse, deletes):
    """Given old events in the quarantine and newer ones of their keys that retention took, when they are replayed, then
    deleted keys stay deleted and rows as they are; read again with all that came after it, a key that is new comes."""
    made = Upserted(lakehouse, partitions=1, deletes=deletes)
    made.declare(quality=BAD)
    made.both((1, "bad"), (1, "a"), (1, None), (2, "bad"), (2, "b"), (3, "bad"), (4, "d"))
    assert made.rows() == {2: "b", 4: "d"}
    retained(made, 6)
    made.both((5, "bad"), (6, "f"))
    made.declare()
    made.lakehouse.close()
    replay_quarantine(lakehouse.lake, made.append.contract, Selection(), ADA)
    made.merge()
    assert made.rows() == {2: "b", 4: "d", 5: "bad", 6: "f"}
    replay_range(lakehouse.lake, made.append.contract, 0, 0, 9, ADA)
    made.merge()
    assert made.rows() == {2: "b", 3: "bad", 4: "d", 5: "bad", 6: "f"}


def test_a_key_whose_newest_event_goes_to_the_quarantine_after_retention(lakehouse):
    """Given a replay that puts keys' newest events into the quarantine, when retention has taken their older ones, then
    their rows stay until more is known of them."""
    made = Upserted(lakehouse, partitions=1)
    made.both((1, "a"), (4, "d"))
    retained(made, 2)
    made.both((2, "c"), (1, "bad"), (2, "bad"), (3, "bad"))
    made.declare(quality=BAD)
    made.lakehouse.close()
    replay_range(lakehouse.lake, made.append.contract, 0, 2, 6, ADA)
    made.merge()
    assert made.rows() == {1: "bad", 2: "c", 3: "bad", 4: "d"}
    made.both((1, None))
    assert made.rows() == {2: "c", 3: "bad", 4: "d"}
    made.declare()
    made.lakehouse.close()
    replay_quarantine(lakehouse.lake, made.append.contract, Selection(), ADA)
    made.merge()
    assert made.rows() == {2: "bad", 3: "bad", 4: "d"}


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=pytest.mark.long)])
def test_a_delete_whose_record_is_replayed_alone_after_retention_is_remembered(lakehouse, deletes):
    """Given a remembered delete, when its record and the one it took are replayed without all that followed, in one merge with an event
    that is older by its order, then the key stays deleted, as without the replay."""
    made = Upserted(lakehouse, partitions=1, deletes=deletes, order_by=["ts"])
    made.both((6, "a", 47), (6, None), (1, "x", 1))
    assert made.rows() == {1: "x"}
    retained(made, 2)
    replay_range(lakehouse.lake, made.append.contract, 0, 0, 2, ADA)
    made.both((6, "late", 7))
    assert made.rows() == {1: "x"}
    made.both((6, "newer", 50))
    assert made.rows() == {1: "x", 6: "newer"}


@pytest.mark.parametrize("deletes", [pytest.param("hard", marks=pytest.mark.long), "soft"])
def test_a_mark_stays_when_its_own_records_are_replayed_after_retention(lakehouse, deletes):
    """Given a delete of a newer event in another partition, when it is replayed together with an older event, then that stays out."""
    made = Upserted(lakehouse, partitions=2, deletes=deletes, order_by=["ts"])
    made.topic.send_raw([made.record_in(1, 6, "a", 21)])
    made.topic.send_raw([made.record_in(0, 6, None)])
    made.topic.send_raw([made.record_in(1, 6, "b", 13)])
    made.both((2, "x", 1), (3, "y", 1))
    assert made.rows() == {2: "x", 3: "y"}
    retained(made, 2)
    replay_range(lakehouse.lake, made.append.contract, 0, 0, 1, ADA)
    replay_range(lakehouse.lake, made.append.contract, 1, 1, 2, ADA)
    made.merge()
    assert made.rows() == {2: "x", 3: "y"}


def sent_of_age(made, days, *events):
    """Send records of that age."""
    producer, at = made.topic._new_producer(), int((time.time() - days * 86_400) * 1000)
    for event in events:
        key, value, partition = made.record_in(0, *event)
        producer.produce(made.topic.name, value, key, partition, timestamp=at)
    producer.flush(30)


def merged_of_age(made, days, *events):
    """Send records of that age, ingest, merge; the upsert table's receipt."""
    sent_of_age(made, days, *events)
    made.both()
    return own_receipts(made.lakehouse.lake, made.name)[0][0]


def old_log(lakehouse, offsets):
    """An append table with rows that are too old to stay, all of them merged."""
    columns, old = Struct((Field("id", LONG), KAFKA_COLUMN)), datetime.now(UTC) - timedelta(days=40)

    def row(key, offset):
        return key, ("t", 0, offset, old, 0, None, None, None, False, 0)

    log = AppendLog(lakehouse, columns, value={"format": "json"}, upsert=["id"], retention={"append": "30d"})
    for offset in range(offsets):
        log.commit([row(offset, offset)], {0: offset + 1})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    return log, row


def offsets_of(log):
    found = (
        log.lake.spark().sql(f"SELECT _kafka.offset FROM {log.lake.identifier(log.contract.table)}").collect()
    )
    return sorted(each[0] for each in found)


def taken_of(log):
    properties = log.lakehouse.catalog.load_table(log.contract.table).properties
    return Taken.model_validate_json(properties[TAKEN]).next


def test_retention_of_a_busy_table_looks_once_at_what_goes(lakehouse, monkeypatch):
    """Given a batch that comes whenever a delete is staged, and once a compaction with it, when it is tried again, then
    what took long to find out is not asked again, and just the old rows that are merged go."""
    log, row = old_log(lakehouse, 2)
    looked, batches, real = [], iter((2, 3, 4)), retention._furthest

    def comes(point):
        if point == "retention_staged" and (offset := next(batches, None)):
            log.commit([row(9, offset)], {0: offset + 1})
            if offset == 3:
                call = log.lake.call(
                    "rewrite_data_files", log.contract.table, "options => map('rewrite-all', 'true')"
                )
                log.lake.spark().sql(call).collect()

    monkeypatch.setattr(retention, "pause_point", comes)
    monkeypatch.setattr(retention, "_furthest", lambda *asked: looked.append(asked) or real(*asked))
    gain = expired(log.lake, log.contract)
    assert (gain.acted, gain.numbers["conflicts"]) == (True, 3), gain
    assert len(looked) == 1
    assert offsets_of(log) == [2, 3, 4]
    assert taken_of(log) == {0: 2}


def test_old_rows_that_come_while_retention_looks_stay_where_the_contract_has_no_upsert_any_more(
    lakehouse, monkeypatch
):
    """Given an upsert table that was taken out of the contract, when a batch of old records comes after retention has looked
    how far rows go, then these rows stay: the table's note of what has gone does not know of them."""
    log, row = old_log(lakehouse, 2)
    log.edit(value={"format": "json"}, retention={"append": "30d"})
    real, late = retention._furthest, iter([2])

    def meanwhile(*asked):
        found = real(*asked)
        for offset in late:
            log.commit([row(9, offset)], {0: offset + 1})
        return found

    monkeypatch.setattr(retention, "_furthest", meanwhile)
    assert expired(log.lake, log.contract).acted
    assert offsets_of(log) == [2]
    assert taken_of(log) == {0: 2}
    assert expired(log.lake, log.contract).acted
    assert (offsets_of(log), taken_of(log)) == ([], {0: 3})


def to_snapshot(made, table, snapshot):
    """Someone sets a table to another state by hand."""
    call = f"CALL lake.system.set_current_snapshot('{table}', {snapshot})"
    made.lakehouse.spark().sql(call)


def test_an_upsert_table_that_is_taken_back_past_retention_stops_until_someone_says_how_to_go_on(lakehouse):
    """Given rows that retention took once they were merged, when the upsert table is set to before they were, then it
    stops; set to a state that has them it goes on, and so it does where the delete is undone, or its loss accepted."""
    made = Upserted(lakehouse, partitions=1)
    made.declare(retention={"append": "30d"})
    first = merged_of_age(made, 40, (1, "a"))
    second = merged_of_age(made, 39, (2, "b"))
    merged_of_age(made, 0, (3, "c"))
    whole = made.append.iceberg().metadata.current_snapshot_id
    assert expired(lakehouse.lake, made.append.contract).numbers["rows_deleted"] == 2
    to_snapshot(made, made.name, second)
    made.merge()
    assert made.rows() == {1: "a", 2: "b", 3: "c"}, "what retention took was merged by then"
    to_snapshot(made, made.name, first)
    error = catch_up_merges(lakehouse.lake, made.current, "test").error
    assert (error["state"], "below offset 2 of partition 0" in error["message"]) == ("ledger_missing", True)
    assert made.rows() == {1: "a"}
    taken = made.append.iceberg().metadata.current_snapshot_id
    to_snapshot(made, made.append.name, whole)
    made.merge()
    assert made.rows() == {1: "a", 2: "b", 3: "c"}
    to_snapshot(made, made.append.name, taken)
    to_snapshot(made, made.name, first)
    assert catch_up_merges(lakehouse.lake, made.current, "test").error["state"] == "ledger_missing"
    accept_either(lakehouse.lake, made.current.contract, "first-load", ADA)
    made.merge()
    assert made.rows() == {3: "c"}


def test_a_rollback_goes_no_further_back_than_the_upsert_table_can_follow(lakehouse):
    """Given rows that retention took, when the upsert table's history expires, then it keeps what it needs to follow a
    rollback to any snapshot that the append table still has; where somebody has expired that, the rollback is
    refused."""
    made = Upserted(lakehouse, partitions=1)
    made.declare(retention={"append": "30d"})
    merged_of_age(made, 40, (1, "a"))
    merged_of_age(made, 0, (2, "b"))
    assert expired(lakehouse.lake, made.append.contract).numbers["rows_deleted"] == 1
    target = made.append.iceberg().metadata.current_snapshot_id
    made.both((3, "c"))
    made.both((2, "x"))
    limits, named = Snapshots(max_age="1s", min_keep=1), partial(named_snapshots, lakehouse.lake)
    time.sleep(1)
    assert expire(
        lakehouse.lake,
        made.name,
        limits,
        partial(named, made.append.contract, made.name),
        until=inf,
        dry_run=False,
    ).acted
    undo = partial(rollback, lakehouse.lake, made.append.contract, signature=ADA)
    undo(Target(snapshot_id=target))
    made.merge()
    assert made.rows() == {1: "a", 2: "b"}
    resume(lakehouse.lake, made.append.contract, ADA)
    assert made.append.run().error is None
    made.merge()
    made.both((4, "d"))
    assert made.rows() == {1: "a", 2: "x", 3: "c", 4: "d"}
    time.sleep(1)
    assert expire(lakehouse.lake, made.name, limits, Named, until=inf, dry_run=False).acted
    with pytest.raises(Refused, match="no snapshot left from before") as refused:
        undo(Target(snapshot_id=target))
    undo(Target(snapshot_id=refused.value.fields["oldest"]))
    made.merge()
    assert made.rows() == {1: "a", 2: "x", 3: "c", 4: "d"}, "it names the newest, which alone is left"
    made.declare(upsert=None, retention={"append": "30d"})
    rollback(lakehouse.lake, made.append.contract, Target(snapshot_id=target), ADA)
    made.declare(retention={"append": "30d"})
    assert catch_up_merges(lakehouse.lake, made.current, "test").error["state"] == "ledger_missing"
    accept_either(lakehouse.lake, made.current.contract, "first-load", ADA)
    made.merge()
    assert made.rows() == {2: "b"}, "the way out that it names"


def test_a_rollback_to_before_the_upsert_table_was_made_needs_its_first_load_again(lakehouse):
    """Given an upsert table that was made when retention had deleted rows, when the append table is taken back to before it,
    then it is made of what is there once that is accepted, as the first time: no row is gone that it had."""
    made = Upserted(lakehouse, partitions=1)
    made.declare(upsert=None, retention={"append": "30d"})
    sent_of_age(made, 40, (1, "a"))
    sent_of_age(made, 0, (2, "b"))
    assert made.append.run().error is None
    assert expired(lakehouse.lake, made.append.contract).numbers["rows_deleted"] == 1
    target = made.append.iceberg().metadata.current_snapshot_id
    made.send((3, "wrong"))
    assert made.append.run().error is None
    made.declare(retention={"append": "30d"})
    lakehouse.close()

    def accepted():
        assert catch_up_merges(lakehouse.lake, made.current, "test").error["state"] == "ledger_missing"
        accept_either(lakehouse.lake, made.current.contract, "first-load", ADA)
        made.merge()
        return made.rows()

    assert accepted() == {2: "b", 3: "wrong"}
    rollback(lakehouse.lake, made.append.contract, Target(snapshot_id=target), ADA)
    assert accepted() == {2: "b"}


@pytest.mark.parametrize("table", ["proof.now", pytest.param(None, marks=pytest.mark.long)])
def test_rows_that_retention_took_while_the_contract_had_no_upsert_are_asked_for(lakehouse, table):
    """Given an upsert table that was taken out of the contract, when retention deletes rows that it never merged and it
    comes back, then it stops and names them, until someone accepts their loss; one with the default name is also known
    where the append table has forgotten it."""
    made = Upserted(lakehouse, partitions=1, **({"table": f"{table}_{time.time_ns()}"} if table else {}))
    merged_of_age(made, 40, (1, "a"))
    made.declare(upsert=None, retention={"append": "30d"})
    sent_of_age(made, 39, (2, "b"))
    sent_of_age(made, 0, (3, "c"))
    assert made.append.run().error is None
    if table is None:
        known = remembered(made.append.iceberg().metadata.properties)
        text = json.dumps({key: value for key, value in known.items() if key != "upsert.table"})
        set_properties(lakehouse.lake, made.append.name, {RECORD: text})
    assert expired(lakehouse.lake, made.append.contract).numbers["rows_deleted"] == 2
    made.declare(retention={"append": "30d"})
    error = catch_up_merges(lakehouse.lake, made.current, "test").error
    assert (error["state"], "below offset 2 of partition 0" in error["message"]) == ("ledger_missing", True)
    assert made.rows() == {1: "a"}
    accept_either(lakehouse.lake, made.current.contract, "first-load", ADA)
    made.merge()
    assert made.rows() == {3: "c"}
