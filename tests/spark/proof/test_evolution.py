"""Rule: a table follows its writers as the contract allows; what it may not follow waits, or goes aside by name."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from topics import ORDER, order

from assets.runs.schema import _review
from tidemark.engine.look.status import Hint, judge
from tidemark.engine.look.tables import look
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.schema.evolve import Approval, evolve, evolve_now, plan_evolution, settled_ids
from tidemark.engine.schema.history import history
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table.operations import Signature

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

    @pytest.mark.long
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
    def test_a_column_renamed_by_hand_waits_until_it_is_renamed_back_or_let_go(self, lakehouse):
        """Given a column under another name, when records and a rule need it, then they wait, and either way out loses no value."""
        topic = lakehouse.cluster.topic("renamed")
        topic.send([0])
        table = lakehouse.table(topic, quality=[{"column": "customer", "check": "not_null"}])
        table.run()

        def rename(old, new):
            lakehouse.spark().sql(f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}")

        for after in (lambda: rename("buyer", "customer"), None):
            rename("customer", "buyer")
            topic.send([len(table.ids())])
            waits = table.run()
            assert waits.state == "schema_review"
            found = foresee(lakehouse.lake, table.contract)
            assert (found.verdict, waits.error["plan"]) == ("review", found.plan)
            assert [(c["kind"], c["path"], c["verdict"]) for c in found.changes] == [
                ("add_column", "customer", "review")
            ]
            assert "renamed it to buyer by hand" in found.changes[0]["reason"]
            if after:
                after()
            else:
                signature = Signature("ada@example.org", "known", run_id="r")
                approve(lakehouse.lake, table.contract, found.plan, signature)
            assert table.run().state == "fresh"
        rows = table.iceberg().scan().to_arrow().sort_by("id").to_pylist()
        assert [(row["customer"], row["buyer"]) for row in rows] == [(None, "c0"), (None, "c1"), ("c2", None)]
        table.holds_everything()

    def test_a_reviewed_addition_waits_for_its_approval(self, lakehouse):
        """Given add_column: review, when a writer adds one, then its records wait until this very plan is approved, whatever else is registered that nobody writes with."""
        topic = lakehouse.cluster.topic("reviewed")
        topic.send([0])
        table = lakehouse.table(topic, schema_changes={"add_column": "review"})
        table.run()
        topic.use(WITH_ITEMS)
        send(topic, 1, items=[])
        again = {"name": "again", "type": ["null", WITH_ITEMS["name"]], "default": None}
        topic.register({**WITH_ITEMS, "fields": [*WITH_ITEMS["fields"], again]})
        waits = table.run()
        assert (waits.state, table.ids()) == ("schema_review", [0])
        lake, contract = lakehouse.lake, table.contract
        state = lake.state(table.name)
        schemas = read_schemas(lake, contract, state)
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

    def test_an_approved_incompatible_writer_goes_aside_and_the_rest_goes_on(self, lakehouse):
        """Given old writers around two that changed a column and a list's elements, when the plan is approved, then theirs alone go aside, once and from then on."""
        listed = {**ORDER, "fields": [*ORDER["fields"], tags("string")]}
        clashing = {**INCOMPATIBLE, "fields": [*INCOMPATIBLE["fields"], tags("string")]}
        topic = lakehouse.cluster.topic("approved", schema=listed)
        send(topic, 0, tags=["a"])
        table, lake = lakehouse.table(topic), lakehouse.lake
        table.run()
        topic.use(clashing)
        send(topic, 1, customer=True, tags=[])
        topic.use({**clashing, "fields": [*clashing["fields"][:-1], tags(["string", "long"])]})
        send(topic, 2, customer="c", tags=[2])
        topic.use(listed)
        send(topic, 3, tags=["b"])
        waits = table.run()
        assert (waits.state, table.ids()) == ("schema_review", [0])
        seen = freshness(lakehouse, table, "schema_review")
        assert (seen.state, seen.lag_records) == ("schema_review", 3)
        assert seen.table_clock < seen.stream_clock
        state = lake.state(table.name)
        plan = plan_evolution(table.contract, state, read_schemas(lake, table.contract, state))
        assert {c.path for c in plan.changes} == {("customer",), ("tags", "element")}
        assert waits.error["plan"] == plan.id
        approve(lake, table.contract, plan.id, Signature("ann", "known", "run-1"))
        assert table.run().state == "fresh"
        assert (table.ids(), table.causes()) == ([0, 3], {"schema_not_allowed": 2})
        assert table.run().commits == 0
        topic.use(clashing)
        send(topic, 4, customer=False, tags=[])
        topic.use(listed)
        send(topic, 5, tags=[])
        assert table.run().rows[:3] == (2, 1, 1)
        assert (table.ids(), table.causes()) == ([0, 3, 5], {"schema_not_allowed": 3})
        table.holds_everything()
        [entry] = history(lake.state(table.name))
        assert (entry["by"], entry["plan"], len(entry["schema_ids"])) == ("ann", plan.id, 2)

    def test_writers_that_an_approval_sends_aside_are_no_flood_however_many_their_records(self, lakehouse):
        """Given a topic half of whose records have changed a column, when the plan is approved, then batch after batch enters, and a replay too; garbage is a flood as before."""
        topic = lakehouse.cluster.topic("half")
        topic.send(range(15))
        table, lake = lakehouse.table(topic), lakehouse.lake
        table.run()

        changed = replace(topic)  # the same, as another writer sees it
        changed.use(INCOMPATIBLE)

        def send_mixed(numbers):
            values = (
                topic.encode(order(n)) if n % 2 else changed.encode({**order(n), "customer": True})
                for n in numbers
            )
            topic.send_raw([(b"k", value, 0) for value in values])

        send_mixed(range(20, 50))
        waits = table.run()
        assert waits.state == "schema_review"
        approve(lake, table.contract, waits.error["plan"], Signature("ann", "known"))
        assert (table.run().state, table.causes()) == ("fresh", {"schema_not_allowed": 15})
        send_mixed(range(50, 80))
        mixed = table.run()
        assert (mixed.state, mixed.causes, table.causes()) == (
            "fresh",
            {"schema_not_allowed": 15},
            {"schema_not_allowed": 30},
        )
        dry = Signature("ann", "a look", dry_run=True)
        seen = replay_quarantine(lake, table.contract, Selection(), dry).arguments
        assert seen["stays"] == {"schema_not_allowed": 30}
        end = table.ledger["next"]["0"]
        told = replay_range(lake, table.contract, 0, 0, end, Signature("ann", "again", run_id="r")).arguments
        assert (told["written"], told["quarantined"]) == (45, 30)
        table.holds_everything()
        send_mixed(range(80, 100))
        topic.send_raw([(None, b"garbage", 0)] * 10)
        stopped = table.run()
        assert (stopped.state, stopped.error["causes"], stopped.error["read"]) == (
            "quarantine_flood",
            {"no_magic_byte": 10},
            20,
        )

    def test_a_new_epoch_asks_anew_about_writers_that_an_approval_sent_aside(self, lakehouse):
        """Given ids that an approval has sent to the quarantine, when another topic, of a registry that may number otherwise, is accepted, then its records are judged, not set aside unseen."""
        topic = lakehouse.cluster.topic("renumbered")
        send(topic, 0)
        table, lake = lakehouse.table(topic), lakehouse.lake
        table.run()
        topic.use(INCOMPATIBLE)
        send(topic, 1, customer=True)
        waits = table.run()
        approve(lake, table.contract, waits.error["plan"], Signature("ann", "known"))
        assert (table.run().state, table.causes()) == ("fresh", {"schema_not_allowed": 1})
        topic.recreate(1)
        send(topic, 2, customer=True)
        assert table.run().state == "topic_recreated"
        accepted = accept(lake, table.contract, "new-epoch", Signature("ann", "moved"))
        assert accepted.arguments["forgotten_schema_ids"] == [topic.schema_id]
        assert settled_ids(lake.state(table.name)) == frozenset()
        waits = table.run()
        assert (waits.state, table.causes()) == ("schema_review", {"schema_not_allowed": 1})
        approve(lake, table.contract, waits.error["plan"], Signature("ann", "still so"))
        assert (table.run().state, table.causes()) == ("fresh", {"schema_not_allowed": 2})
        lakehouse.spark().sql(
            f"ALTER TABLE lake.{table.name} UNSET TBLPROPERTIES ('tidemark.schema.settled')"
        )
        send(topic, 3, customer=False)
        assert table.run().state == "schema_review", "taken back as the guide says"

    def test_a_schema_that_nobody_writes_yet_is_planned_for_and_holds_nothing_up(self, lakehouse):
        """Given an addition and an incompatible version registered ahead of their first record, when the schema asset looks, then the column is there, the other waits with a red check, and old records flow."""
        topic = lakehouse.cluster.topic("ahead")
        topic.send([0])
        table, lake = lakehouse.table(topic), lakehouse.lake
        table.run()
        topic.use(WITH_ITEMS)
        topic.use({**INCOMPATIBLE, "fields": [*INCOMPATIBLE["fields"], WITH_ITEMS["fields"][-1]]})
        topic.use(ORDER)
        found = evolve_now(lake, table.contract, "asset-run")
        assert [(c.kind, c.path) for c in found.done] == [("add_column", ("items",))]
        assert [(c.kind, c.path) for c in found.parked] == [("incompatible", ("customer",))]
        check = _review(table.contract, found)
        assert (check.passed, found.plan.id in str(check.metadata["next"].value)) == (False, True)
        assert evolve_now(lake, table.contract, "asset-run").done == ()
        topic.send([1])
        outcome = table.run()
        assert (outcome.state, rows(table)) == ("fresh", [(0, None), (1, [])])
        assert freshness(lakehouse, table, None).state == "fresh"
        table.holds_everything()

    def test_a_version_that_the_registry_has_deleted_does_not_decide_a_new_table(self, lakehouse):
        """Given an incompatible version that was registered by mistake and deleted, then a new table is of the other version, and a record of it waits for a review."""
        topic = lakehouse.cluster.topic("mistaken")
        topic.send([0])
        topic.use(INCOMPATIBLE)
        versions = f"{topic.cluster.registry_url}/subjects/{topic.name}-value/versions"
        httpx.delete(f"{versions}/2", trust_env=False, timeout=30).raise_for_status()
        table, lake = lakehouse.table(topic), lakehouse.lake
        assert table.run().state == "fresh"
        assert str(table.iceberg().schema().find_field("customer").field_type) == "string"
        send(topic, 1, customer=True)
        waits = table.run()
        assert waits.state == "schema_review"
        assert foresee(lake, table.contract).plan == waits.error["plan"]
        approve(lake, table.contract, waits.error["plan"], Signature("ann", "a mistake"))
        assert (table.run().state, table.causes()) == ("fresh", {"schema_not_allowed": 1})
        topic.use(ORDER)
        topic.send([2])
        topic.register(WITH_ITEMS)
        httpx.delete(f"{versions}/1", trust_env=False, timeout=30).raise_for_status()
        assert table.run().state == "fresh"
        assert rows(table) == [(0, None), (2, [])], "of a deleted version that the table holds"
        table.holds_everything()

    def test_a_version_that_has_the_number_of_one_deleted_for_good_is_read_by_a_running_process(
        self, lakehouse
    ):
        """Given a subject that is deleted for good and registered anew with a field more, when run again, then the record comes in."""
        topic = lakehouse.cluster.topic("anew")
        topic.send([0])
        table = lakehouse.table(topic)
        assert table.run().state == "fresh"
        for how in ("", "?permanent=true"):
            subject = f"{topic.cluster.registry_url}/subjects/{topic.name}-value{how}"
            httpx.delete(subject, trust_env=False, timeout=30).raise_for_status()
        topic.use(WITH_ITEMS)
        topic.send([1])
        assert table.run().state == "fresh"
        assert (table.causes(), rows(table)) == ({}, [(0, None), (1, [])])


def tags(kind):
    return {"name": "tags", "type": {"type": "array", "items": kind}, "default": []}


def freshness(lakehouse, table, stopped):
    """What `status` says after a run that ended in the state `stopped`."""
    [facts] = look(lakehouse.lake, [table.contract], {})
    now = datetime.now(UTC)
    return judge(replace(facts, hint=Hint(stopped=stopped, at=now)), poll=timedelta(seconds=5), now=now)
