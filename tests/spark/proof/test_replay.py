"""Rule: a replay moves records, never copies them; what Kafka no longer has is refused by name."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from topics import ORDER, order

import tidemark.engine.operate.replay_quarantine as replaying
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.look.quarantined import causes
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.properties import set_properties
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_offset

pytestmark = pytest.mark.makes_code

NEWER = {**ORDER, "doc": "the same fields, another schema"}
ADA = Signature("ada", "a test", run_id="replay-1")


@pytest.fixture
def table(lakehouse):
    """A hundred orders, five of a schema that is registered elsewhere alone, two poison records, three tombstones."""
    topic = lakehouse.cluster.topic("replayed", 2)
    topic.send(range(100))
    elsewhere, known = lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id, topic.schema_id
    topic.schema_id = elsewhere
    topic.send_raw((str(n).encode(), topic.encode(order(n)), n % 2) for n in range(100, 105))
    topic.schema_id = known
    topic.send_raw([(None, b"poison", 0), (None, b"poison", 1)])
    topic.send_tombstones(range(3))
    made = lakehouse.table(topic)
    assert made.run().rows.quarantined == 7
    assert made.causes() == {"schema_not_allowed": 5, "no_magic_byte": 2}
    return made


def test_quarantined_records_that_fit_today_enter_the_table_once(lakehouse, table):
    """Given a schema that the registry has learnt since, when the quarantine is replayed twice, then its records move once and the poison stays."""
    known = table.topic.schema_id
    assert table.ledger["schema_ids"] == [known], (
        "a number that the registry does not list may be no id at all"
    )
    table.topic.use(NEWER)
    told = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).as_json()["arguments"]
    assert table.ledger["schema_ids"] == [table.topic.schema_id]
    assert (told["moved"], told["stays"], told["commits"]) == (5, {"no_magic_byte": 2}, 1)
    assert table.ids() == list(range(105))
    verdict = table.holds_everything()
    assert (verdict.rows, verdict.quarantined) == (105, 2)
    assert sum(read for read, *_ in table.ledger["totals"].values()) == 110
    head, marks = table.head, _marks(table)
    assert marks == {("replay-1", 5), (None, 2)}
    again = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).as_json()["arguments"]
    assert (again["moved"], again["commits"], again["causes_changed"]) == (0, 0, 0)
    assert (table.head, _marks(table)) == (head, marks)
    assert reconcile(lakehouse.lake, table.contract).sound
    table.topic.send(range(105, 110))
    assert table.run().rows.written == 5
    table.holds_everything()


def test_a_quarantine_table_that_somebody_altered_stops_no_batch_and_says_what_it_lacks(lakehouse, table):
    """Given a column added by hand, then batches and replays go on; given one renamed, then whoever looks is told which."""
    name = table.contract.quarantine_table
    lakehouse.spark().sql(f"ALTER TABLE {name} ADD COLUMN ticket STRING")
    table.topic.send_raw([(None, b"poison", 0)])
    assert table.run().rows.quarantined == 1
    table.topic.use(NEWER)
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments["moved"] == 5
    table.holds_everything()
    lakehouse.spark().sql(f"ALTER TABLE {name} RENAME COLUMN cause TO why")
    ledger = lakehouse.lake.state(table.name).ledger
    for look in (
        lambda: causes(lakehouse.lake, table.name, name, ledger),
        lambda: where_offset(lakehouse.lake, table.contract, 0, 1),
    ):
        with pytest.raises(Stopped, match=r"dropped or renamed its columns cause: ALTER TABLE .* TO cause"):
            look()


def test_records_that_retention_deletes_next_are_told_before_they_move(lakehouse, table):
    """Given a table whose retention has deleted rows of the records' age, when those of one partition are replayed, then a dry run and the replay count the moved ones, and only these."""
    table.topic.use(NEWER)
    dry = Signature("ada", "a test", dry_run=True)
    young = replay_quarantine(lakehouse.lake, table.contract, Selection(), dry).arguments
    assert "beyond_retention" not in young
    for cut, aged in (("2000-01-01T00:00:00+00:00", 0), ("2100-01-01T00:00:00+00:00", 3)):
        set_properties(lakehouse.lake, table.name, {EXPIRED_BEFORE: cut})
        seen = replay_quarantine(lakehouse.lake, table.contract, Selection(partition=0), dry).arguments
        assert (seen["moved"], seen["beyond_retention"]) == (3, aged)
    told = replay_quarantine(lakehouse.lake, table.contract, Selection(partition=0), ADA).arguments
    assert (told["moved"], told["stays"], told["beyond_retention"]) == (3, {"no_magic_byte": 1}, 3)
    again = replay_quarantine(lakehouse.lake, table.contract, Selection(partition=0), ADA).arguments
    assert (again["moved"], again["beyond_retention"]) == (0, 0)


def test_a_replay_of_one_cause_leaves_the_others_alone(lakehouse, table, monkeypatch):
    """Given records of two causes in two partitions, when one cause of one partition is replayed, then the others stay, and no more is looked at than lies between the first and the last that leave."""
    table.topic.use(NEWER)
    head = table.head
    dry = Signature("ada", "a test", dry_run=True)
    seen = replay_quarantine(lakehouse.lake, table.contract, Selection(), dry).as_json()["arguments"]
    assert (seen["moved"], seen["stays"], table.head) == (5, {"no_magic_byte": 2}, head)
    other = replay_quarantine(lakehouse.lake, table.contract, Selection("no_magic_byte"), ADA)
    assert (other.arguments["moved"], table.head) == (0, head)
    looked, check = [], replaying.check_each_once
    monkeypatch.setattr(
        replaying, "check_each_once", lambda lake, plan: (looked.append(plan.ranges), check(lake, plan))
    )
    part = replay_quarantine(lakehouse.lake, table.contract, Selection("schema_not_allowed", 0), ADA)
    assert part.arguments["moved"] == 3
    assert looked == [{0: OffsetRange(50, 53)}]
    assert table.holds_everything().rows == 103


def test_what_a_mended_contract_takes_in_is_replayed_by_range_and_then_whole(lakehouse):
    """Given documents that break a rule or are too wide for a declared type, when the contract is mended, then a dry run foresees it, a replay of some offsets moves those, and the next one the rest, once."""
    topic = lakehouse.cluster.bare_topic("mended")
    topic.send_raw((b"k", f'{{"id": {n}, "price": {n}.5}}'.encode(), 0) for n in range(40))
    topic.send_raw((b"k", f'{{"id": {n}, "price": 12345.5}}'.encode(), 0) for n in range(40, 43))
    topic.send_raw((b"k", f'{{"id": {n}, "price": -1.5}}'.encode(), 0) for n in range(43, 46))
    price = {"id": "bigint", "price": "decimal(4,1)"}
    rule = {"column": "price", "check": "in_range", "min": 0}
    made = lakehouse.table(topic, value={"format": "json", "fields": price}, quality=[rule])
    assert made.run().rows.quarantined == 6
    assert made.causes() == {"value_out_of_range": 3, "quality:in_range": 3}
    wider = {"format": "json", "fields": {**price, "price": "decimal(8,1)", "note": "string"}}
    mended = lakehouse.table(topic, value=wider, quality=[])
    lake, dry = lakehouse.open_lake(), Signature("ada", "a test", dry_run=True)
    columns = mended.iceberg().schema()
    foreseen = replay_quarantine(lake, mended.contract, Selection(), dry).arguments
    assert (foreseen["moved"], foreseen["stays"]) == (6, {})
    assert replay_range(lake, mended.contract, 0, 0, 46, dry).arguments["written"] == 46
    assert mended.iceberg().schema() == columns
    part = replay_quarantine(lake, mended.contract, Selection(partition=0, first=41, upto=44), ADA).arguments
    assert (part["moved"], mended.ids()) == (3, [*range(40), 41, 42, 43])
    rest = replay_quarantine(lake, mended.contract, Selection(), ADA).arguments
    assert (rest["moved"], mended.ids(), mended.causes()) == (3, list(range(46)), {})
    assert str(mended.iceberg().schema().find_type("price")) == "decimal(8, 1)"
    mended.holds_everything()


def test_a_range_is_read_again_and_replaces_its_rows(lakehouse, table):
    """Given a table from which rows vanished, when their range is replayed, then all is there once, the quarantine too."""
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE _kafka.partition = 0 AND _kafka.offset IN (3, 4)")
    assert len(table.ids()) == 98
    assert [each.gaps for each in reconcile(lakehouse.lake, table.contract).counts] == [[(3, 5)], []]
    table.topic.use(NEWER)
    end = table.ledger["next"]["0"]
    told = replay_range(lakehouse.lake, table.contract, 0, 0, end, ADA).as_json()["arguments"]
    assert (told["written"], told["quarantined"], told["tombstones"]) == (53, 1, 2)
    assert told["before_quarantined"] == 4
    assert table.holds_everything().rows == 103
    assert table.ledger["reloaded"] == {"0": [[0, end]]}
    assert table.causes() == {"schema_not_allowed": 2, "no_magic_byte": 2}
    rest = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments
    assert (rest["moved"], table.ids()) == (2, list(range(105)))
    table.topic.send(range(105, 120))
    table.run()
    assert table.holds_everything().rows == 120


def test_a_replay_leaves_in_the_quarantine_what_a_blocking_rule_holds_back(lakehouse):
    """Given a blocking rule, when the quarantine of an accepted batch is replayed, then what breaks it stays and the rest moves; where records break a rule of the whole table, the replay is refused with a way out."""
    topic = lakehouse.cluster.topic("blocking", schema=ORDER)
    priced = {"sql": "id <> 3", "name": "not_three", "on_failure": "block"}
    made = lakehouse.table(topic, quality=[priced])
    topic.send(range(10))
    topic.schema_id = lakehouse.cluster.topic("stranger", schema=NEWER).schema_id
    topic.send_raw([(None, topic.encode(order(n)), 0) for n in (9, 10)])
    assert made.run().state == "quality_blocked"
    accept(lakehouse.lake, made.contract, "quarantine-batch", ADA)
    assert made.run().rows.quarantined == 3
    topic.use(NEWER)
    once = {"check": "unique", "column": "id", "within": "table"}
    made = lakehouse.table(topic, quality=[priced, once])
    head = made.head
    with pytest.raises(Refused, match="unique_id") as refused:
        replay_quarantine(lakehouse.lake, made.contract, Selection(), ADA)
    assert "--cause" in refused.value.next_step
    assert "accept" not in refused.value.next_step
    assert (made.head, made.branches) == (head, set())
    made = lakehouse.table(topic, quality=[priced])
    told = replay_quarantine(lakehouse.lake, made.contract, Selection(), ADA).arguments
    assert (told["moved"], told["stays"]) == (2, {"quality:not_three": 1})
    assert made.ids() == [0, 1, 2, *range(4, 10), 9, 10]
    made.holds_everything()


def test_a_replay_that_ends_between_two_of_its_commits_says_what_it_has_moved(lakehouse, monkeypatch):
    """Given a quarantine that leaves in two commits, when the second is refused, then that is no refusal of the whole: what the first has moved is told and logged, and the rest goes once it may."""
    topic = lakehouse.cluster.topic("halfway", 1)
    topic.send(range(10))
    topic.schema_id = lakehouse.cluster.topic("unknown", schema=NEWER).schema_id
    again, fresh = (topic.encode(order(n)) for n in (9, 10))
    topic.send_raw((None, value, 0) for value in (fresh, b"poison", again))
    once = {"check": "unique", "column": "id", "within": "table"}
    made = lakehouse.table(topic, quality=[once], quarantine={"fail": 0.5})
    assert made.run().rows.quarantined == 3
    topic.use(NEWER)
    monkeypatch.setattr(replaying, "MOST_RUNS", 1)
    with pytest.raises(Stopped, match=r"1 records were moved by 1 commits .*unique_id") as stopped:
        replay_quarantine(lakehouse.lake, made.contract, Selection(), ADA)
    assert (stopped.value.state, stopped.value.fields["moved"]) == ("failed", 1)
    assert "repeat the command" in stopped.value.next_step
    assert made.ids() == list(range(11))
    log = lakehouse.spark().table("lake.lake.tidemark_operations").where(f"`table` = '{made.name}'")
    [row] = log.collect()
    assert (row["after_snapshot"], json.loads(row["arguments"])["moved"]) == (made.head, 1)
    lenient = lakehouse.table(topic, quarantine={"fail": 0.5})
    told = replay_quarantine(lakehouse.lake, lenient.contract, Selection(), ADA).arguments
    assert (told["moved"], told["stays"]) == (1, {"no_magic_byte": 1})


def test_a_range_replay_is_held_back_by_a_blocking_rule_of_the_whole_table_and_by_none_of_the_batch(
    lakehouse,
):
    """Given a key twice in a table, when a rule forbids it, then ranges with one of the two are refused, all others are replayed."""
    topic = lakehouse.cluster.topic("twice", schema=ORDER)
    topic.send([*range(10), 3], partition=0)
    lakehouse.table(topic).run()
    once = {"check": "unique", "column": "id"}
    made = lakehouse.table(topic, quality=[{**once, "within": "table"}])
    lake, head = lakehouse.lake, made.head
    for first, upto in ((3, 4), (10, 11), (0, 11)):
        with pytest.raises(Refused, match="unique_id"):
            replay_range(lake, made.contract, 0, first, upto, ADA)
    assert (made.head, made.branches) == (head, set())
    assert replay_range(lake, made.contract, 0, 4, 10, ADA).arguments["written"] == 6
    made = lakehouse.table(topic, quality=[once])
    assert replay_range(lake, made.contract, 0, 0, 11, ADA).arguments["written"] == 11


def test_what_a_dead_attempt_left_in_the_quarantine_beside_a_row_goes_before_a_replay_takes_the_last_place(
    lakehouse,
):
    """Given rows that wait in the quarantine as well, by an attempt that was killed, when a replay is the newest receipt before the next batch, then each record is in one place."""
    topic = lakehouse.cluster.topic("doubled")
    topic.send(range(6))
    topic.send_raw([(b"k", b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    table.run()
    left = lakehouse.spark().table(f"lake.{table.name}_quarantine")
    for offset in (1, 4):
        dead = {"offset": F.lit(offset).cast("bigint"), "batch_id": F.lit("dead"), "run_id": F.lit("dead")}
        left.where("offset = 6").withColumns(dead).writeTo(f"lake.{table.name}_quarantine").append()
    replay_range(lakehouse.lake, table.contract, 0, 0, 2, ADA)
    assert table.causes() == {"no_magic_byte": 1}
    assert reconcile(lakehouse.lake, table.contract).sound
    assert table.holds_everything().quarantined == 1


def test_what_cannot_be_replayed_is_refused_by_name(lakehouse, table):
    end = table.ledger["next"]["0"]
    table.topic.delete_records({0: 5})

    def refused(partition, first, upto):
        with pytest.raises(Refused) as found:
            replay_range(lakehouse.lake, table.contract, partition, first, upto, ADA)
        assert found.value.next_step
        return str(found.value)

    assert "no longer has offsets 0 to 4" in refused(0, 0, 10)
    assert f"offsets {end} to {end + 9} are not read yet" in refused(0, 5, end + 10)
    assert "partitions [0, 1] of" in refused(7, 0, 1)
    assert "0 <= a < b" in refused(0, 5, 5)
    assert table.branches == set()


def test_a_selection_of_the_quarantine_that_nothing_can_be_is_refused(lakehouse, table):
    """Given slips of the pen, then each is named with what there is; a cause that nothing has at the moment is none."""
    for selection, why in (
        (Selection("no_magic_bite"), "no record of .* as no_magic_bite; did you mean no_magic_byte"),
        (Selection("quality:gone"), "no record of .* as quality:gone"),
        (Selection(partition=99), "has read partitions \\[0, 1\\] of .*, not 99"),
        (Selection(partition=0, first=5, upto=3), "0 <= a < b"),
    ):
        with pytest.raises(Refused, match=why) as found:
            replay_quarantine(lakehouse.lake, table.contract, selection, ADA)
        assert found.value.next_step
    done = replay_quarantine(lakehouse.lake, table.contract, Selection("null_key"), ADA)
    assert done.arguments["moved"] == 0


def _marks(table):
    rows = table.lakehouse.catalog.load_table(f"{table.name}_quarantine").scan().to_arrow()
    by = rows["resolved_by"].to_pylist()
    return {(run, by.count(run)) for run in by}


def test_the_quarantine_of_a_topic_with_many_partitions_is_replayed(lakehouse):
    """Given more partitions than conditions may be nested in each other, then one commit moves a record of each."""
    topic = lakehouse.cluster.topic("wide", 60)
    elsewhere, known = lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id, topic.schema_id
    topic.send_raw((None, topic.encode(order(n)), n) for n in range(60))
    topic.schema_id = elsewhere
    topic.send_raw((None, topic.encode(order(n)), n - 60) for n in range(60, 120))
    topic.schema_id = known
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    assert table.run().rows.quarantined == 60
    topic.use(NEWER)
    told = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments
    assert (told["moved"], told["commits"]) == (60, 1)
    assert table.holds_everything().rows == 120
