"""Rule: an edited contract changes the table, never what is in it; what was written by another layout stays readable."""

import re

import pytest
from topics import ORDER, order

from tidemark.domain.errors import Stopped
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.schema.evolve import evolve_now, plan_evolution
from tidemark.engine.schema.history import history
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.where import where_offset

ANN = Signature("ann", "known", "run-1")


def planned(lakehouse, table):
    lake, contract = lakehouse.lake, table.contract
    state = lake.state(table.name)
    return plan_evolution(contract, state, read_schemas(lake, contract, state))


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_layout_edited_in_the_contract_is_for_new_files_and_every_row_stays(lakehouse, version):
    """Given a table partitioned by day, when the contract asks for buckets and an order, then both specs are read as one."""
    topic = lakehouse.cluster.topic("relayout", 2)
    topic.send(range(40))
    common = {"format_version": version, "table_properties": {"mine": "1"}}
    table = lakehouse.table(topic, partition_by=["day(at)"], **common)
    table.run()
    edited = {
        "partition_by": ["bucket(4, id)", "hour(_kafka.timestamp)"],
        "sort_by": ["customer"],
        "description": "Orders of the shop",
        "columns": {"customer": {"description": "who bought", "tags": ["pii"]}},
        "table_properties": {"theirs": "$2"},
        "format_version": version,
    }
    lakehouse.table(topic, **edited)
    topic.send(range(40, 80))
    assert table.run().state == "fresh"
    assert table.ids() == list(range(80))
    assert planned(lakehouse, table).changes == ()
    loaded = table.iceberg()
    assert {f.name for f in loaded.spec().fields} == {"id_bucket_4", "_kafka.timestamp_hour"}
    assert len({file["spec_id"] for file in loaded.inspect.files().to_pylist()}) == 2
    assert loaded.properties["theirs"] == "$2"
    assert "mine" not in loaded.properties
    assert loaded.properties["comment"] == "Orders of the shop"
    assert loaded.schema().find_field("customer").doc == "who bought"
    seen = {c["kind"] for c in history(lakehouse.lake.state(table.name))[-1]["changes"]}
    assert seen == {"partition_spec", "sort_order", "property", "comment"}
    by_day = lakehouse.spark().sql(f"SELECT count(*) FROM {table.name} WHERE id = 41").collect()[0][0]
    assert by_day == 1
    table.holds_everything()


def test_a_layout_that_somebody_changed_by_hand_is_put_back_by_the_next_run(lakehouse):
    """Given a field dropped, an order written and a column made required, when records come, then they are laid out as the contract says, once."""
    topic = lakehouse.cluster.topic("by_hand")
    topic.send(range(4))
    table = lakehouse.table(topic, partition_by=["bucket(4, id)"], sort_by=["customer"])
    table.run()
    for change in ("DROP PARTITION FIELD bucket(4, id)", "WRITE ORDERED BY amount DESC"):
        lakehouse.spark().sql(f"ALTER TABLE {table.name} {change}")
    with table.iceberg().update_schema(allow_incompatible_changes=True) as schema:
        schema.update_column("customer", required=True)
    changed = {"partition_spec", "sort_order", "make_optional"}
    assert {c.kind for c in planned(lakehouse, table).of("apply")} == changed
    topic.send(range(4, 8))
    assert table.run().state == "fresh"
    assert planned(lakehouse, table).changes == ()
    state = lakehouse.lake.state(table.name)
    assert (state.shape.partition_by, state.shape.sort_by) == (("bucket(4, id)",), ("customer",))
    entries = len(history(state))
    topic.send([8])
    table.run()
    assert len(history(lakehouse.lake.state(table.name))) == entries
    table.holds_everything()


def with_ship(fields, *, customer=True):
    ship = {"type": "record", "name": "Ship", "fields": fields}
    kept = [{**f, "default": ""} if f["name"] == "customer" else f for f in ORDER["fields"]]
    kept = [f for f in kept if customer or f["name"] != "customer"]
    return {**ORDER, "fields": [*kept, {"name": "ship", "type": ["null", ship], "default": None}]}


TO = {"name": "to", "type": "string"}
FEE = {"name": "fee", "type": ["null", "int"], "default": None}
WIDE_FEE = {"name": "fee", "type": ["null", "long"], "default": None}


def test_writers_of_many_versions_interleaved_in_one_batch_are_read_each_by_its_own(lakehouse):
    """Given five versions mixed over two partitions, NULL structs and a column that goes and comes back, when run once, then each value is there."""
    topic = lakehouse.cluster.topic("mixed", 2)
    topic.send([0])
    table = lakehouse.table(topic)
    table.run()
    versions = [
        (ORDER, {}),
        (with_ship([TO]), {"ship": {"to": "a"}}),
        (with_ship([TO, FEE]), {"ship": None}),
        (with_ship([TO, WIDE_FEE], customer=False), {"ship": {"to": "b", "fee": 2**40}}),
        (with_ship([TO, WIDE_FEE]), {"ship": {"to": "c", "fee": None}}),
    ]
    ready, expected = [], {0: ("c0", None)}
    for schema, more in versions:
        topic.use(schema)
        for turn in range(4):
            number = len(expected)
            value = {**order(number), **more}
            ready.append((turn, (b"k", topic.encode(value), turn % 2)))
            has = any(f["name"] == "customer" for f in schema["fields"])
            ship = more.get("ship")
            expected[number] = (
                value["customer"] if has else "",  # the default of the newest schema
                ship and {"to": ship["to"], "fee": ship.get("fee")},
            )
    topic.send_raw(message for _, message in sorted(ready, key=lambda each: each[0]))
    outcome = table.run()
    assert (outcome.state, outcome.commits) == ("fresh", 1)
    rows = table.iceberg().scan().to_arrow().to_pylist()
    assert {row["id"]: (row["customer"], row["ship"]) for row in rows} == expected
    table.holds_everything()


def test_records_of_a_writer_that_drops_a_column_wait_or_go_aside_as_the_contract_says(lakehouse):
    without = {**ORDER, "fields": [f for f in ORDER["fields"] if f["name"] != "customer"]}
    topic = lakehouse.cluster.topic("dropping")
    topic.send([0])
    waits = lakehouse.table(topic, f"{topic.name}_waits", schema_changes={"remove_column": "review"})
    aside = lakehouse.table(topic, f"{topic.name}_aside", schema_changes={"remove_column": "quarantine"})
    pinned = lakehouse.table(topic, f"{topic.name}_pinned", partition_by=["customer"])
    for table in (waits, aside, pinned):
        table.run()
    topic.use(without)
    topic.send_raw([(b"k", topic.encode(order(1)), 0)])
    topic.use(ORDER)
    topic.send([2])
    outcome = waits.run()
    assert (outcome.state, waits.ids()) == ("schema_review", [0])
    assert "customer" not in outcome.error["next_step"]
    assert re.search(r"customer: schema id \d+ \(version \d+\): no longer there", outcome.error["message"])
    assert (aside.run().state, aside.ids(), aside.causes()) == ("fresh", [0, 2], {"schema_not_allowed": 1})
    stopped = pinned.run()
    assert (stopped.state, pinned.ids()) == ("schema_unsupported", [0])
    assert "partition_by needs it" in stopped.error["message"]
    lakehouse.table(topic, pinned.name.partition(".")[2], partition_by=["day(at)"])
    assert (pinned.run().state, pinned.ids()) == ("fresh", [0, 1, 2])
    aside.holds_everything()
    pinned.holds_everything()
    reviewing = lakehouse.table(
        topic, aside.name.partition(".")[2], schema_changes={"remove_column": "review"}
    )
    told = replay_quarantine(lakehouse.lake, reviewing.contract, Selection(), ANN).arguments
    assert (told["moved"], told["stays"], aside.ids()) == (0, {"schema_review": 1}, [0, 2])
    with pytest.raises(Stopped, match=r"customer: schema id \d+ .*: no longer there"):
        replay_range(lakehouse.lake, reviewing.contract, 0, 0, 3, ANN)
    plan = planned(lakehouse, reviewing)
    approve(lakehouse.lake, reviewing.contract, plan.id, ANN)
    told = replay_quarantine(lakehouse.lake, reviewing.contract, Selection(), ANN).arguments
    assert (told["moved"], aside.ids()) == (1, [0, 1, 2])
    aside.holds_everything()


def test_what_waits_is_told_by_the_columns_that_its_own_writer_has_dropped(lakehouse):
    """Given a writer that dropped a column, and a later one that dropped another too, then the first is told of its own."""
    topic = lakehouse.cluster.topic("dropping")
    topic.send([0])
    table = lakehouse.table(topic, schema_changes={"remove_column": "review"})
    table.run()
    for number, kept in enumerate((("id", "amount", "at"), ("id", "at")), 1):
        topic.use({**ORDER, "fields": [f for f in ORDER["fields"] if f["name"] in kept]})
        topic.send_raw([(b"k", topic.encode(order(number)), 0)])
    message = table.run().error["message"]
    first, second = re.split(r"; (?=schema id \d+: )", message)
    assert [("customer: " in each, "amount: " in each) for each in (first, second)] == [
        (True, False),
        (True, True),
    ]


def test_a_type_change_inside_a_list_parks_just_its_records(lakehouse):
    def tagged(kind):
        return {
            **ORDER,
            "fields": [*ORDER["fields"], {"name": "tags", "type": {"type": "array", "items": kind}}],
        }

    topic = lakehouse.cluster.topic("listed", schema=tagged("string"))
    topic.send_raw([(b"k", topic.encode({**order(0), "tags": ["a"]}), 0)])
    table = lakehouse.table(topic)
    table.run()
    topic.use(tagged(["string", "long"]))
    topic.send_raw([(b"k", topic.encode({**order(1), "tags": ["a", 1]}), 0)])
    outcome = table.run()
    assert (outcome.state, table.ids()) == ("schema_review", [0])
    [change] = planned(lakehouse, table).changes
    assert (change.kind, change.path) == ("incompatible", ("tags", "element"))


@pytest.mark.long
def test_a_contract_that_names_another_topic_stops_until_a_new_epoch_is_accepted(lakehouse):
    """Given a loaded table, when its contract names another topic, then the plan says so, nothing moves, and once accepted both topics' rows stand side by side."""
    topic, other = lakehouse.cluster.topic("before"), lakehouse.cluster.topic("instead")
    topic.send(range(10))
    other.send(range(100, 103))
    table = lakehouse.table(topic)
    table.run()
    edited = lakehouse.table(other, topic.name)
    assert edited.name == table.name
    plan = foresee(lakehouse.lake, edited.contract)
    assert plan.verdict == "impossible"
    assert [(c["kind"], c["path"], c["from"], c["to"]) for c in plan.changes if c["verdict"] != "apply"] == [
        ("contract", "topic", topic.name, other.name)
    ]
    outcome = edited.run()
    assert (outcome.state, edited.ids()) == ("topic_recreated", list(range(10)))
    assert "--new-epoch" in outcome.error["next_step"]
    assert f"offsets of {topic.name}, the contract names {other.name}" in outcome.error["message"]
    assert "created again" not in outcome.error["message"]
    found = where_offset(lakehouse.lake, edited.contract, 0, 0)
    assert [(each.topic, each.fate) for each in found] == [(other.name, "not_yet"), (topic.name, "published")]
    accept(lakehouse.lake, edited.contract, "new-epoch", Signature("ann", "moved"))
    assert (edited.run().state, edited.ids()) == ("fresh", [*range(10), 100, 101, 102])
    assert foresee(lakehouse.lake, edited.contract).verdict == "nothing"
    edited.holds_everything()


def test_a_table_takes_no_columns_of_another_topic(lakehouse):
    """Given a loaded table, when its contract names a topic of another schema, then run, schema asset and approval stop alike and the table is as it was."""
    topic = lakehouse.cluster.topic("ours")
    other = lakehouse.cluster.topic("theirs", schema=with_ship([TO]))
    topic.send(range(3))
    table = lakehouse.table(topic)
    table.run()
    lake, before = lakehouse.lake, table.iceberg()
    edited = lakehouse.table(other, topic.name)
    assert edited.run().state == "topic_recreated"
    with pytest.raises(Stopped, match="the contract names"):
        evolve_now(lake, edited.contract, "r")
    careful = lakehouse.table(other, topic.name, schema_changes={"add_column": "review"})
    with pytest.raises(Stopped, match="the contract names"):
        approve(lake, careful.contract, planned(lakehouse, careful).id, Signature("ann", "seen"))
    now = table.iceberg()
    assert (now.schema(), now.properties) == (before.schema(), before.properties)
    lakehouse.table(topic)
    assert table.run().error is None


def test_a_codec_that_takes_no_level_in_numbers_is_written_with(lakehouse):
    """Given a contract with gzip, and later one without, then the level of zstd comes and goes with its codec."""
    codec, level = "write.parquet.compression-codec", "write.parquet.compression-level"
    topic = lakehouse.cluster.topic("codec")
    table = lakehouse.table(topic, table_properties={codec: "gzip"})
    for said, expected in (
        ({codec: "gzip"}, ("gzip", None)),
        ({}, ("zstd", "1")),
        ({codec: "gzip"}, ("gzip", None)),
    ):
        lakehouse.table(topic, table_properties=said)
        before = len(table.ids()) if lakehouse.catalog.table_exists(table.name) else 0
        topic.send(range(before, before + 10))
        assert table.run().error is None
        properties = table.iceberg().properties
        assert (properties.get(codec), properties.get(level)) == expected
    assert table.ids() == list(range(30))
