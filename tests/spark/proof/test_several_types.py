"""Rule: of several record types in one topic each lands in its own table; what no table is for is counted, not lost."""

import json
import time

import pytest
from decoding import encoded, framed
from lakehouse import Table

from tidemark.cli import status
from tidemark.domain.plan.proposal import propose
from tidemark.engine.ingest import microbatch
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.preview import sample
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.preview.survey import survey
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile

AUDIT = {"type": "record", "name": "Audit", "fields": [{"name": "text", "type": "string"}]}
PROTO = """syntax = "proto3"; package shop; message Placed { int32 id = 1; } message Paid { int32 id = 1; int32 cents = 2; }
message Audit { string text = 1; }"""


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("several", 2)


def send(topic, *values):
    topic.send_raw((b"k", value, n % topic.partitions) for n, value in enumerate(values))


def record(name, *fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def tables(lakehouse, topic, *records, **contract):
    """The tables of one contract with events, by record name."""
    events = {name: f"proof.{topic.name}_{name.rpartition('.')[2].lower()}" for name in records}
    path = lakehouse.contracts / f"{topic.name}.yaml"
    path.write_text(json.dumps({"topic": topic.name, "events": events, **contract}))
    return [Table(lakehouse, topic, table) for table in events.values()]


def test_records_go_to_the_table_of_their_name_under_any_subject_strategy(lakehouse, topic):
    """Given types registered by record and by topic and record, when run, then each offset has one fate per table."""
    space = topic.name
    placed = record(f"{space}.Placed", ("id", "long"), ("who", "string"))
    paid = record(f"{space}.Paid", ("id", "long"), ("cents", "int"))
    wider = record(f"{space}.Paid", ("id", "long"), ("cents", "long"))
    first = topic.cluster.register(f"{space}.Placed", placed)
    second = topic.cluster.register(f"{space}-{space}.Paid", paid)
    audit = topic.cluster.register(f"{space}-audit", AUDIT)
    log = framed(audit, encoded(AUDIT, {"text": "x"}))
    good = [framed(first, encoded(placed, {"id": n, "who": "a"})) for n in range(20)]
    good += [framed(second, encoded(paid, {"id": n, "cents": n})) for n in range(10)]
    send(topic, *good, log, log, None, b"garbage", framed(first, b""))
    reason = proposed(lakehouse, topic)
    assert f"{space}.Placed (21), {space}.Paid (10), Audit (2)" in reason
    assert (
        f"`events: {{Audit: lake.audit, {space}.Paid: lake.{space}_paid, {space}.Placed: lake.{space}_placed}}`"
        in reason
    )
    left, right = tables(lakehouse, topic, f"{space}.Placed", f"{space}.Paid", quarantine={"fail": 0.1})
    assert (foreseen(lakehouse, left), foreseen(lakehouse, right)) == ((35, 20, 2, 1, 12), (35, 10, 1, 1, 23))
    one, two = left.run(), right.run()
    assert (one.error, one.rows) == (None, (35, 20, 2, 1, 12))
    assert (two.error, two.rows) == (None, (35, 10, 1, 1, 23))
    assert (one.unrouted, two.unrouted) == (2, 2)
    assert (left.ledger["unrouted"], right.ledger["unrouted"]) == (2, 2)
    assert left.causes() == {"no_magic_byte": 1, "undecodable": 1}
    assert right.causes() == {"no_magic_byte": 1}
    assert right.rows()[:2] == [{"id": 0, "cents": 0}, {"id": 1, "cents": 1}]
    third = topic.cluster.register(f"{space}-{space}.Paid", wider)
    send(topic, framed(third, encoded(wider, {"id": 10, "cents": 2**40})), log, log, good[0])
    assert right.run().rows == (4, 1, 0, 0, 3)
    assert right.rows()[-1] == {"id": 10, "cents": 2**40}
    assert left.run().rows == (4, 1, 0, 0, 3)
    assert left.ledger["unrouted"] == 4
    for table in (left, right):
        [report] = [r for r in statuses_of(lakehouse, table) if r.table == table.name]
        assert (report.state, report.unrouted) == ("fresh", 4)
    takes_another_type_once_approved(
        lakehouse, left, good[0], framed(second, encoded(paid, {"id": 7, "cents": 1}))
    )


def takes_another_type_once_approved(lakehouse, table, old, new):
    """Records of both types wait until a person has seen that those of the old one will be passed over."""
    topic, name = table.topic, f"{table.topic.name}.Paid"
    path = lakehouse.contracts / f"{topic.name}.yaml"
    path.write_text(json.dumps({"topic": topic.name, "events": {name: table.name}}))
    send(topic, old, new)
    waits, found = table.run(), foresee(lakehouse.lake, table.contract)
    assert (waits.state, waits.commits, waits.error["plan"]) == ("schema_review", 0, found.plan)
    assert [(c["path"], c["to"]) for c in found.changes if c["verdict"] == "review"] == [("event", name)]
    assert "passed over" in waits.error["message"]
    approve(lakehouse.lake, table.contract, found.plan, Signature("ann", "known", "run-1"))
    outcome = table.run()
    assert (outcome.error, outcome.rows) == (None, (2, 1, 0, 0, 1))
    assert {"id": 7, "who": None, "cents": 1} in table.rows()
    assert foresee(lakehouse.lake, table.contract).verdict == "nothing"
    read, written, quarantined, tombstones, skipped = table.ledger["totals"]["0"]
    replay_range(lakehouse.lake, table.contract, 0, 10, 15, Signature("ann", "passed over", "run-2"))
    moved = [read, written + 5, quarantined, tombstones, skipped - 5]
    assert table.ledger["totals"]["0"] == moved, "a part of a batch with rows of the old type"


def test_a_table_goes_on_however_many_other_types_its_topic_shows(lakehouse, topic, monkeypatch):
    """Given more types than are looked up at once, when run, then all are found over some turns, and a later one too."""
    monkeypatch.setattr(microbatch, "ATTEMPTS", 2)
    for module in (microbatch, sample):  # three turns, more than a batch is planned in vain
        monkeypatch.setattr(module, "IDS_ROUTED", 15)
    own = record(f"{topic.name}.Own", ("id", "long"))
    first = topic.cluster.register(f"{topic.name}.Own", own)
    others = [record(f"{topic.name}.Other{n}", ("id", "long")) for n in range(47)]
    ids = [topic.cluster.register(each["name"], each) for each in others]
    send(topic, *(framed(i, encoded(own, {"id": n})) for n, i in enumerate([first, *ids[:45], 2**31 - 1])))
    [table] = tables(lakehouse, topic, f"{topic.name}.Own", quarantine={"fail": 0.1})
    outcome = table.run()
    assert (outcome.error, outcome.rows) == (None, (47, 1, 1, 0, 45))
    assert table.causes() == {"unknown_schema_id": 1}
    send(topic, *(framed(i, encoded(own, {"id": n})) for n, i in enumerate([*ids, first])))
    outcome = table.run()
    assert (outcome.error, outcome.rows) == (None, (48, 1, 0, 0, 47))
    assert foreseen(lakehouse, table) == (95, 2, 1, 0, 92), "what the ledger knows is not looked up in turns"


def test_a_lost_row_is_a_gap_however_many_records_were_skipped_before(lakehouse, topic):
    """Given a batch of nothing but other types, then one with rows, when rows are deleted, then the newest offsets do not pass for skipped ones."""
    own = record(f"{topic.name}.Own", ("id", "long"))
    first = topic.cluster.register(f"{topic.name}.Own", own)
    audit = topic.cluster.register(f"{topic.name}-audit", AUDIT)
    log = framed(audit, encoded(AUDIT, {"text": "x"}))
    good = [framed(first, encoded(own, {"id": n})) for n in range(8)]
    [table] = tables(lakehouse, topic, f"{topic.name}.Own")
    for values, written in (([log] * 60, 0), ([*good, *[log] * 4], 8)):
        send(topic, *values)
        assert table.run().rows.written == written
    found = reconcile(lakehouse.lake, table.contract, newest=12)
    assert found.sound
    assert [(each.rows, each.skipped, each.doubtful) for each in found.counts] == [(4, 2, 0)] * 2
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE id < 2")
    found = reconcile(lakehouse.lake, table.contract, newest=12)
    assert not found.sound
    assert [each.gaps for each in found.counts] == [[(30, 31), (34, 36)]] * 2


def test_a_lost_row_is_a_gap_however_many_old_records_were_skipped(lakehouse):
    """Given skipped records and rows of forty days in a batch of their own, and young ones of both, when retention has deleted what is old, then all is in its place; two rows that somebody deletes do not pass for the old skips."""
    topic = lakehouse.cluster.bare_topic("aged_types", 1, retention_ms="-1")
    own = record(f"{topic.name}.Own", ("id", "long"))
    first = topic.cluster.register(f"{topic.name}.Own", own)
    log = framed(topic.cluster.register(f"{topic.name}-audit", AUDIT), encoded(AUDIT, {"text": "x"}))
    keeps = {"retention": {"append": "30d"}, "maintenance": {"snapshots": {"max_age": "1s", "min_keep": 1}}}
    [table] = tables(lakehouse, topic, f"{topic.name}.Own", **keeps)
    now, producer = int(time.time() * 1000), topic._new_producer()
    for ids, logs, days in ((range(3), 20, 40), (range(3, 11), 4, 0)):
        for value in [*(framed(first, encoded(own, {"id": n})) for n in ids), *[log] * logs]:
            producer.produce(topic.name, value, b"k", 0, timestamp=now - days * 86_400_000)
        producer.flush(30)
        assert table.run().rows.skipped == logs
    found = {each.kind: each for each in maintain(lakehouse.lake, table.contract, ("snapshot_expiry",))}
    assert (found["retention"].error, found["retention"].numbers["rows_deleted"]) == (None, 3)
    assert [row["id"] for row in table.rows()] == [*range(3, 11)]
    [sound] = reconcile(lakehouse.lake, table.contract).counts
    assert (sound.gaps, sound.rows, sound.skipped, sound.kafka_records, sound.doubtful) == ([], 8, 4, 12, 0)
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE id < 5")
    [lost] = reconcile(lakehouse.lake, table.contract).counts
    assert (lost.gaps, lost.skipped) == ([(23, 25), (31, 35)], 0)


def foreseen(lakehouse, table):
    """What a plan's sample says of all records, in the order of an outcome's rows."""
    found = foresee(lakehouse.lake, table.contract, sample=1000).sample
    return tuple(found[fate] for fate in ("records", "written", "quarantined", "tombstones", "skipped"))


def proposed(lakehouse, topic):
    """Why one table is not what fits the topic."""
    found = propose(survey(lakehouse.lake, topic.name, "main", 100))
    assert not found.fits
    [reason] = [each.text for each in found.reasons if each.level == "no_fit"]
    return reason


def statuses_of(lakehouse, table):
    return status.statuses_of(lakehouse.lake, [table.contract], lakehouse.contracts.parent)


def test_a_union_under_the_topics_subject_is_taken_apart_by_branch(lakehouse, topic):
    placed = record("shop.Placed", ("id", "long"), ("tags", {"type": "map", "values": "string"}))
    paid = record("shop.Paid", ("id", "long"), ("cents", "int"))
    chain = record("shop.Chain", ("next", ["null", "shop.Chain"]))
    union = ["null", placed, AUDIT, paid, chain]
    schema_id = topic.register(union)
    values = [("shop.Placed", {"id": 1, "tags": {"a": "b"}}), ("Audit", {"text": "x"}), None]
    values += [("shop.Paid", {"id": 2, "cents": 3}), ("shop.Paid", {"id": 3, "cents": -3})]
    values += [("shop.Chain", {"next": {"next": None}})]
    cut = [framed(schema_id, payload) for payload in (b"\x06\x04", b"\x02\x04", b"\x0a")]
    send(topic, *(framed(schema_id, encoded(union, value)) for value in values), *cut)
    left, right = tables(lakehouse, topic, "shop.Placed", "shop.Paid", quarantine={"fail": 0.9})
    assert left.run().rows == (9, 1, 2, 0, 6)
    outcome = right.run()
    assert (outcome.rows, outcome.unrouted) == ((9, 2, 2, 0, 5), 3)
    assert left.causes() == right.causes() == {"undecodable": 2}, (
        "a branch that is cut is its own table's matter"
    )
    assert left.rows() == [{"id": 1, "tags": [("a", "b")]}]
    assert right.rows() == [{"id": 2, "cents": 3}, {"id": 3, "cents": -3}]


def test_messages_of_one_protobuf_file_are_told_apart_by_their_index(lakehouse, topic):
    schema_id = topic.register(PROTO, "PROTOBUF")
    values = (b"\x00\x08\x01", b"\x02\x02\x08\x02\x10\x05", b"\x02\x04\x0a\x01x", b"\x02\x00\x08\x03")
    send(topic, *(framed(schema_id, value) for value in values))
    reason = proposed(lakehouse, topic)
    assert reason.startswith(
        "2 of 4 sampled values are of other record types than the table would be of: shop."
    )
    assert (
        "`events: {shop.Audit: lake.shop_audit, shop.Paid: lake.shop_paid, shop.Placed: lake.shop_placed}`"
        in reason
    )
    left, right = tables(lakehouse, topic, "shop.Placed", "shop.Paid")
    one, two = left.run(), right.run()
    assert (one.error, one.rows, one.unrouted) == (None, (4, 2, 0, 0, 2), 1)
    assert (two.error, two.rows, two.unrouted) == (None, (4, 1, 0, 0, 3), 1)
    assert left.rows() == [{"id": 1}, {"id": 3}]
    assert right.rows() == [{"id": 2, "cents": 5}]


def test_titles_of_json_schemas_route_and_a_type_that_was_never_registered_waits_for_its_schema(
    lakehouse, topic
):
    placed = {"title": "Placed", "type": "object", "properties": {"id": {"type": "integer"}}}
    paid = {**placed, "title": "Paid"}
    first = topic.cluster.register(f"{topic.name}-Placed", placed, "JSON")
    send(topic, framed(first, b'{"id": 1}'))
    left, right = tables(lakehouse, topic, "Placed", "Paid")
    assert left.run().rows.written == 1
    nothing = right.run()
    assert nothing.state == "misconfigured"
    assert f"{topic.name}-value or Paid or {topic.name}-Paid" in nothing.error["message"]
    second = topic.cluster.register(f"{topic.name}-Paid", paid, "JSON")
    send(topic, framed(second, b'{"id": 2}'))
    assert foreseen(lakehouse, right) == foreseen(lakehouse, left) == (2, 1, 0, 0, 1)
    assert right.run().rows == (2, 1, 0, 0, 1)
    assert left.run().rows == (1, 0, 0, 0, 1)
