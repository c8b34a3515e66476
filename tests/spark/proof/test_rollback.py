"""Rule: a rollback takes rows, offsets and quarantine back together, and what is read again is read once."""

import json
import struct
import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from pyiceberg.exceptions import CommitFailedException
from topics import ORDER, order
from waiting import until

from tidemark.domain.errors import Refused
from tidemark.domain.ledger.ledger import branch_name
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.look.quarantined import unresolved
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table import publish as publishing
from tidemark.engine.table.branch import Attempt, open_branch
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_key, where_offset

NEWER = {**ORDER, "doc": "the same fields, another schema"}
ADA = Signature("ada", "a test", run_id="replay-1")
UNKNOWN = struct.pack(">bI", 0, 999_999) + b"\x02\x02"


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_bad_deployment_is_undone_with_all_that_came_after_it(lakehouse, format_version):
    """Given loads, a replay of the quarantine and one of a range, when rolled back before all of them, then the quarantine waits as it did, and a resumed run catches up."""
    topic = lakehouse.cluster.topic("undone", 2)
    topic.send(range(40))
    elsewhere, known = lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id, topic.schema_id
    topic.schema_id = elsewhere
    topic.send_raw((str(n).encode(), topic.encode(order(n)), n % 2) for n in range(40, 44))
    topic.schema_id = known
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    target, following = table.head, table.ledger["next"]
    topic.use(NEWER)
    replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA)
    topic.send(range(44, 60))
    topic.send_raw([(b"k", UNKNOWN, 1)])
    table.run()
    replay_range(lakehouse.lake, table.contract, 0, 0, 10, Signature("ada", "again", run_id="replay-2"))
    assert table.holds_everything().quarantined == 1

    told = rollback(lakehouse.lake, table.contract, Target(target), ADA, downstream=["shop/mart"]).as_json()
    assert told["arguments"]["next"] == following
    assert (told["arguments"]["replays_undone"], told["arguments"]["stale"]) == (2, ["shop/mart"])
    assert table.ids() == list(range(40))
    assert table.causes() == {"schema_not_allowed": 4}
    assert table.holds_everything(caught_up=False).quarantined == 4
    assert reconcile(lakehouse.lake, table.contract).sound
    assert table.run().state == "paused"
    again = rollback(lakehouse.lake, table.contract, Target(target), ADA).arguments
    assert (again["already_there"], again["commits_undone"]) == (True, 0)

    resume(lakehouse.lake, table.contract, ADA)
    assert table.run().rows.written == 16
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments["moved"] == 4
    assert table.ids() == list(range(60))
    assert table.holds_everything().quarantined == 1


def test_a_rollback_to_what_is_gone_is_refused_and_changes_nothing(lakehouse):
    topic = lakehouse.cluster.topic("refused")
    table = lakehouse.table(topic)
    heads = []
    for batch in range(3):
        topic.send(range(batch * 10, batch * 10 + 10))
        table.run()
        heads.append(table.head)

    def refused(target):
        with pytest.raises(Refused) as found:
            rollback(lakehouse.lake, table.contract, target, ADA)
        return str(found.value)

    staged = table.iceberg().snapshot_by_id(heads[1]).parent_snapshot_id
    assert f"name snapshot {heads[1]}" in refused(Target(staged))
    assert "oldest that is left" in refused(Target(42))
    topic.delete_records({0: 15})
    assert "partition 0: offsets 10 to 14 are gone" in refused(Target(heads[0]))
    assert (table.head, table.run().state) == (heads[2], "fresh")
    dry = Signature("ada", "a test", dry_run=True)
    assert rollback(lakehouse.lake, table.contract, Target(heads[1]), dry).arguments["next"] == {"0": 20}
    assert (table.head, table.run().state) == (heads[2], "fresh")


def test_main_taken_by_hand_to_half_of_a_commit_stops_until_that_half_is_undone(lakehouse):
    """Given two batches, when somebody rolls main back to the rows of the first without their receipt, then nothing is read over them, and the rollback that the state names loads each record once."""
    topic = lakehouse.cluster.topic("half")
    table = lakehouse.table(topic)
    for batch in range(2):
        topic.send(range(batch * 10, batch * 10 + 10))
        table.run()
    chain = list(ancestors(table.iceberg().metadata, table.head))
    half, first = next((a, b) for a, b in pairwise(chain[2:]) if "tidemark.batch" in summary_of(a))
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {half.snapshot_id})")
    outcome = table.run()
    assert (outcome.state, outcome.commits, table.head) == ("ledger_missing", 0, half.snapshot_id)
    step = outcome.error["next_step"]
    assert step.startswith(f"tidemark rollback {table.name} --snapshot {first.snapshot_id} --reason …")
    assert f"set_current_snapshot('lake.{table.name}', {chain[0].snapshot_id})" in step
    rollback(lakehouse.lake, table.contract, Target(first.snapshot_id), ADA)
    assert table.ids() == []
    resume(lakehouse.lake, table.contract, ADA)
    assert table.run().rows.written == 20
    assert table.ids() == list(range(20))
    assert reconcile(lakehouse.lake, table.contract).sound


def test_main_taken_by_hand_to_the_removal_with_which_a_replay_began_stops_likewise(lakehouse):
    topic = lakehouse.cluster.topic("removal")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    first = table.head
    replay_range(lakehouse.lake, table.contract, 0, 2, 6, ADA)
    chain = ancestors(table.iceberg().metadata, table.head)
    removal = next(each for each in chain if each.parent_snapshot_id == first)
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {removal.snapshot_id})")
    assert len(table.ids()) == 6
    topic.send([10])
    outcome = table.run()
    assert (outcome.state, outcome.commits, table.head) == ("ledger_missing", 0, removal.snapshot_id)
    rollback(lakehouse.lake, table.contract, Target(first), ADA)
    resume(lakehouse.lake, table.contract, ADA)
    assert table.run().rows.written == 1
    assert table.ids() == list(range(11))


def test_rows_of_a_batch_that_somebody_picked_stop_the_table_until_they_are_undone(lakehouse):
    """Given a batch that was rolled back and read again, when somebody picks its old rows, then nothing is read over rows that are there twice."""
    topic = lakehouse.cluster.topic("picked")
    table = lakehouse.table(topic)
    topic.send(range(10))
    table.run()
    first = table.head
    topic.send(range(10, 20))
    table.run()
    rows = table.iceberg().snapshot_by_id(table.head).parent_snapshot_id
    rollback(lakehouse.lake, table.contract, Target(first), ADA)
    resume(lakehouse.lake, table.contract, ADA)
    assert table.run().rows.written == 10
    read = table.head
    lakehouse.spark().sql(f"CALL lake.system.cherrypick_snapshot('{table.name}', {rows})")
    assert len(table.ids()) == 30
    topic.send([20])
    outcome = table.run()
    assert (outcome.state, outcome.commits) == ("ledger_missing", 0)
    assert f"tidemark rollback {table.name} --snapshot {read}" in outcome.error["next_step"]
    rollback(lakehouse.lake, table.contract, Target(read), ADA)
    resume(lakehouse.lake, table.contract, ADA)
    table.run()
    assert table.ids() == list(range(21))


def test_a_rollback_to_between_an_erasure_and_a_replay_brings_no_erased_row_back(lakehouse):
    topic = lakehouse.cluster.topic("erased")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE _kafka.offset = 7")
    erased = table.iceberg().current_snapshot()
    time.sleep(0.01)
    since = datetime.fromtimestamp((erased.timestamp_ms + 1) / 1000, UTC)
    replay_range(lakehouse.lake, table.contract, 0, 2, 6, ADA)
    told = rollback(lakehouse.lake, table.contract, Target(before=since), ADA).arguments
    assert told["target_snapshot"] == erased.snapshot_id
    assert rollback(lakehouse.lake, table.contract, Target(erased.snapshot_id), ADA).arguments[
        "already_there"
    ]
    assert table.ids() == [n for n in range(10) if n != 7]


def test_the_fate_of_every_record_can_be_told_without_spark(lakehouse):
    topic = lakehouse.cluster.topic("fates")
    topic.send(range(10))
    topic.send_tombstones([3])
    topic.send_raw([(b"bad", b"poison", 0)])
    with topic.transaction(abort=True) as transaction:
        transaction.send([11])
    table = lakehouse.table(topic)
    until(lambda: lakehouse.lake.topic(table.contract).end[0] == 14, "the transaction to be aborted")
    topic.send([14])
    table.run(run_id="loader")
    topic.send([99])
    lake = lakehouse.open_lake(session=_no_spark)

    def fate(offset):
        return where_offset(lake, table.contract, 0, offset)[0].as_json()

    row = fate(4)
    assert (row["fate"], row["run_id"], row["snapshot_id"]) == ("published", "loader", table.head)
    assert row["record"]["key"] == "4"
    assert row["schema"] == {"id": topic.schema_id, "subject": f"{topic.name}-value", "version": 1}
    assert row["contract"] == table.contract.digest
    told = fate(11)
    assert (told["fate"], told["cause"]) == ("quarantined", "no_magic_byte")
    assert told["record"]["value"] == "poison"
    assert [fate(o)["fate"] for o in (10, 12, 13, 14)] == ["tombstone", "aborted", "compacted", "published"]
    assert [fate(o)["fate"] for o in (15, 500)] == ["not_yet", "not_yet"]
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE _kafka.offset = 7")
    assert fate(7)["fate"] == "deleted"
    topic.delete_records({0: 8})
    assert fate(7)["fate"] == "unknown"
    assert [each.offset for each in where_key(lake, table.contract, b"4")[0]] == [4]
    assert [each.fate for each in where_key(lake, table.contract, b"bad")[0]] == ["quarantined"]
    assert unresolved(lake, table.contract.quarantine_table, lake.state(table.name).ledger) == 1


def test_rows_that_somebody_has_changed_or_deleted_by_hand_are_told(lakehouse):
    """Given a topic of changes with a skipped one, when somebody updates a row and deletes another, then `where` names the commits, and takes neither for the batch's doing."""
    topic = lakehouse.cluster.topic("byhand", 1)
    ops = [("m" if n == 3 else "c", n) for n in range(6)]
    topic.send_raw(
        [(b"k", json.dumps({"op": op, "after": {"id": n}, "ts_ms": 1}).encode(), 0) for op, n in ops]
    )
    changes = {"format": "json", "envelope": "debezium", "fields": {"id": "bigint"}}
    table = lakehouse.table(topic, value=changes)
    assert table.run().rows.skipped == 1

    def told(offset):
        return where_offset(lakehouse.lake, table.contract, 0, offset)[0].as_json()

    assert [told(o)["fate"] for o in (1, 3)] == ["published", "skipped"]
    assert "foreign_commits" not in told(1)
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE _kafka.offset = 2")
    lakehouse.spark().sql(f"UPDATE {table.name} SET id = 99 WHERE _kafka.offset = 1")
    updated = table.head
    assert [told(o)["fate"] for o in (1, 2, 3)] == ["published", "deleted", "skipped"]
    assert updated in [each["snapshot_id"] for each in told(1)["foreign_commits"]]
    assert "may be theirs" in told(1)["why"]
    assert len(told(2)["foreign_commits"]) == 2
    replay_range(lakehouse.lake, table.contract, 0, 0, 3, ADA)
    assert [told(o)["fate"] for o in (1, 2)] == ["published", "published"]
    assert "foreign_commits" not in told(1), "its row is of the replay"


@pytest.mark.parametrize("fault", [ConnectionError("lost"), CommitFailedException("another was faster")])
def test_what_comes_with_a_receipt_is_said_although_the_answer_to_it_was_lost(lakehouse, monkeypatch, fault):
    """Given a table that Spark alone writes, when its answer behind the move of main is lost, or another commit came between, then the properties are there with the receipt."""
    topic, lake, faults = lakehouse.cluster.topic("said"), lakehouse.lake, [fault]
    topic.send(range(3))
    table = lakehouse.table(topic, format_version=3)
    table.run()
    state, tag = lake.state(table.name), publishing.tag_receipt
    ledger = state.ledger.model_copy(update={"attempt": "said"})
    attempt = Attempt(table.name, branch_name(ledger.batch_id, "said"), state.head)

    def tag_receipt(*how):
        if faults:
            raise faults.pop()
        tag(*how)

    monkeypatch.setattr(publishing, "tag_receipt", tag_receipt)
    receipt = publishing.publish(lake, attempt, open_branch(lake, attempt), ledger, properties={"said": "so"})
    now = lake.state(table.name)
    assert (faults, now.receipt, now.properties.get("said")) == ([], receipt, "so")


def _no_spark():
    raise AssertionError("Spark was asked")


@pytest.mark.parametrize("moment", ["pause_point", "_set_main"])
def test_a_replay_in_the_moment_of_a_rollback_is_not_undone_unseen(lakehouse, monkeypatch, moment):
    """Given a table that Spark sets back whatever it is by then, when a replay of the quarantine ends right before that, then the rollback is planned anew and the records wait again."""
    topic = lakehouse.cluster.topic("at_once", 1)
    topic.send([*range(10), -1])
    strict = {"column": "id", "check": "in_range", "min": 0}
    table = lakehouse.table(topic, format_version=3, quality=[strict])
    table.run()
    target = table.head
    topic.send(range(10, 20))
    table.run()
    table = lakehouse.table(topic, format_version=3)
    left, there = iter([1]), getattr(publishing, moment)

    def meanwhile(*said):
        if said[0] == "publishing" or moment != "pause_point":
            for _ in left:
                moved = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA)
                assert moved.arguments["moved"] == 1
        return there(*said)

    monkeypatch.setattr(publishing, moment, meanwhile)
    told = rollback(lakehouse.lake, table.contract, Target(target), ADA, downstream=[]).as_json()["arguments"]
    assert next(left, None) is None
    assert (told["commits_undone"], told["replays_undone"]) == (2, 1)
    assert table.ids() == list(range(10))
    assert table.causes() == {"quality:in_range": 1}
    resume(lakehouse.lake, table.contract, ADA)
    table.run()
    replay_quarantine(
        lakehouse.lake, table.contract, Selection(), Signature("ada", "again", run_id="replay-2")
    )
    assert table.ids() == [-1, *range(20)]
    assert reconcile(lakehouse.lake, table.contract).sound
