"""Rule: a table follows its writers as the contract allows; what it may not follow waits, or goes aside by name."""

from topics import ORDER, order

from tidemark.engine.schema.evolve import Approval, evolve, history, plan_evolution
from tidemark.engine.schema.writers import read_schemas

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
}
WITH_ITEMS = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "items", "type": {"type": "array", "items": ITEM}, "default": []}],
}
WIDER_ITEM = {
    **ITEM,
    "fields": [
        ITEM["fields"][0],
        {"name": "n", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "by hand"},
    ],
}
WITH_WIDER_ITEMS = {
    **ORDER,
    "fields": [
        *ORDER["fields"],
        {"name": "items", "type": {"type": "array", "items": WIDER_ITEM}, "default": []},
    ],
}
INCOMPATIBLE = {
    **ORDER,
    "fields": [
        {**f, "type": ["string", "boolean"]} if f["name"] == "customer" else f for f in ORDER["fields"]
    ],
}


def send(topic, number, **more):
    topic.send_raw([(b"k", topic.encode({**order(number), **more}), 0)])


def rows(table):
    found = table.iceberg().scan().to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row.get("items")) for row in found]


class TestATableFollowsItsWriters:
    def test_new_and_wider_columns_arrive_nested_too_and_old_writers_go_on(self, lakehouse):
        """Given a writer that adds a list and then widens inside it, when run, then every value is there exactly."""
        topic = lakehouse.cluster.topic("growing")
        topic.send([0])
        table = lakehouse.table(topic)
        table.run()
        topic.use(WITH_ITEMS)
        send(topic, 1, items=[{"sku": "a", "n": 1}])
        topic.use(WITH_WIDER_ITEMS)
        send(topic, 2, items=[{"sku": "b", "n": 2**40, "note": "x"}])
        topic.use(ORDER)
        send(topic, 3)
        assert table.run().state == "fresh"
        assert rows(table) == [
            (0, None),
            (1, [{"sku": "a", "n": 1, "note": None}]),
            (2, [{"sku": "b", "n": 2**40, "note": "x"}]),
            (3, []),
        ]
        table.holds_everything()
        noted = history(lakehouse.lake.state(table.name))
        assert [entry["by"] for entry in noted] == ["contract"]
        assert noted[0]["schema_ids"]

    def test_a_format_3_table_follows_too(self, lakehouse):
        topic = lakehouse.cluster.topic("growing3")
        topic.send([0])
        table = lakehouse.table(topic, format_version=3)
        table.run()
        topic.use(WITH_ITEMS)
        send(topic, 1, items=[{"sku": "a", "n": 1}])
        topic.use(WITH_WIDER_ITEMS)
        send(topic, 2, items=[{"sku": "b", "n": 2**40, "note": None}])
        assert table.run().state == "fresh"
        assert rows(table)[2] == (2, [{"sku": "b", "n": 2**40, "note": None}])

    def test_nothing_is_written_to_a_table_that_needs_nothing(self, lakehouse):
        topic = lakehouse.cluster.topic("still")
        topic.send([0])
        table = lakehouse.table(topic)
        table.run()
        schemas = len(table.iceberg().metadata.schemas)
        topic.send([1])
        table.run()
        assert len(table.iceberg().metadata.schemas) == schemas


class TestWhatMayNotBeFollowed:
    def test_a_reviewed_addition_waits_for_its_approval(self, lakehouse):
        """Given add_column: review, when a writer adds one, then its records wait until this very plan is approved."""
        topic = lakehouse.cluster.topic("reviewed")
        topic.send([0])
        table = lakehouse.table(topic, schema_changes={"add_column": "review"})
        table.run()
        topic.use(WITH_ITEMS)
        send(topic, 1, items=[])
        waits = table.run()
        assert (waits.state, table.ids()) == ("schema_review", [0])
        lake, contract = lakehouse.lake, table.contract
        state, schemas = lake.state(table.name), read_schemas(lake, contract)
        plan = plan_evolution(contract, state, schemas)
        assert waits.error["plan"] == plan.id
        evolve(lake, contract, state, schemas, run_id="r", approval=Approval(plan.id, "ann", "wanted"))
        assert table.run().state == "fresh"
        assert rows(table) == [(0, None), (1, [])]
        assert history(lake.state(table.name))[-1]["by"] == "ann"

    def test_an_incompatible_writer_goes_aside_when_the_contract_says_so(self, lakehouse):
        topic = lakehouse.cluster.topic("aside")
        topic.send([0])
        table = lakehouse.table(topic, schema_changes={"incompatible": "quarantine"})
        table.run()
        topic.use(INCOMPATIBLE)
        send(topic, 1, customer=True)
        topic.use(ORDER)
        topic.send([2])
        assert table.run().state == "fresh"
        assert table.ids() == [0, 2]
        assert table.causes() == {"schema_not_allowed": 1}
        table.holds_everything()
