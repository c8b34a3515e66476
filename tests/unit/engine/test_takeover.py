"""A table belongs to the topic of its ledger: renamed in the contract it is renamed, without one it is released."""

from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, ServerError
from pyiceberg.schema import Schema
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from unserved import ORDERS, lake_in

from tidemark.domain.columns.types import LONG, STRING, Field, Struct, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.layering import Origin
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG, Ledger
from tidemark.domain.plan.contract_record import RECORD, contract_edits, record_text
from tidemark.engine.access.iceberg_types import iceberg_fields
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import read_state
from tidemark.engine.config.configuration import load
from tidemark.engine.ingest.plan import Limits, make_plan
from tidemark.engine.look.status import Facts, Hint, judge
from tidemark.engine.look.tables import hinted
from tidemark.engine.merge.table import prepare
from tidemark.engine.schema.evolve import Approval, begin_rename, finish
from tidemark.engine.schema.history import history
from tidemark.engine.table import first_load, takeover
from tidemark.engine.table.absent import gone, not_new
from tidemark.engine.table.branch import ref_at
from tidemark.engine.table.folder import taken_folder
from tidemark.engine.table.takeover import adoption, releases, rename, renaming

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def contract(table: str, topic: str = "orders", **said: Any) -> Contract:
    return Contract.model_validate({"topic": topic, "table": table, **said})


class Lake:
    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.platform = SimpleNamespace(catalog=SimpleNamespace(type="sql"))
        self.configuration = SimpleNamespace(contracts=(), loaded={})
        self.made_by: dict[str, str] = {}
        self.passed_over: dict[str, float] = {}
        self.loaded = lambda _: True

    def kafka(self, cluster: str) -> Any:
        """Two names of the cluster `c`, and another cluster; without topics."""
        name = {"main": "c", "renamed": "c"}.get(cluster, "e")
        return SimpleNamespace(cluster_id=lambda: name, describe_each=lambda _: {})

    def state(self, table: str, *, ledger: bool = True) -> Any:
        return read_state(self.catalog, table, ledger=ledger)

    def load(self, table: str, topic: str = "orders", file: str = "/contracts/orders.yaml") -> None:
        """A table as an ingest leaves it."""
        self.catalog.create_namespace_if_not_exists(table.partition(".")[0])
        made = self.catalog.create_table(
            table,
            ROWS.schema,
            properties={"tidemark.topic": topic, "tidemark.cluster": "main", "tidemark.contract-file": file},
        )
        ledger = Ledger(cluster_id="c", topic_id="t", topic=topic, next={0: 2})
        made.append(ROWS, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})

    def upsert(self, table: str, of: str, *, memory: bool = True) -> None:
        """An upsert table as merges leave it, and what it remembers of deletes."""
        self.catalog.create_namespace_if_not_exists(table.partition(".")[0])
        for each in (table, f"{table}_deleted")[: 1 + memory]:
            self.catalog.create_table(each, ROWS.schema, properties={"tidemark.upsert-of": of})

    def remember(self, said: Contract) -> None:
        """The table knows the contract that it was last loaded by."""
        _set(self, said.table, {RECORD: record_text(said)})

    def upserts(self) -> dict[str, str]:
        """Upsert tables and their memories, by name: whose they are."""
        loaded = (
            self.catalog.load_table(each)
            for spaces in self.catalog.list_namespaces()
            for each in self.catalog.list_tables(spaces)
        )
        of = {".".join(each.name()): each.properties.get("tidemark.upsert-of") for each in loaded}
        return {name: append for name, append in of.items() if append}

    def declare(self, *contracts: Contract) -> None:
        declared = Origin("contract", "/contracts/orders.yaml", 1)
        origins = {each.table: {"topic": declared} for each in contracts}
        self.configuration = SimpleNamespace(contracts=contracts, origins=origins, loaded={})


def _set(lake: Any, table: str, properties: dict[str, str]) -> None:
    with lake.catalog.load_table(table).transaction() as transaction:
        transaction.set_properties(properties)


def _failing(lake: Any, table: str, times: int, error: type[Exception] = ServerError) -> Any:
    """What loads tables, but for so many times this one."""
    left, load_table = iter(range(times)), lake.catalog.load_table

    def answers(identifier: str) -> Any:
        if identifier == table and next(left, None) is not None:
            raise error("no")
        return load_table(identifier)

    return answers


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(takeover, "set_properties", _set)  # without Spark
    monkeypatch.setattr(takeover, "PAUSE", 0)
    return Lake(tmp_path)


class TestATableThatTheContractNamesAnew:
    def test_waits_for_a_review_and_is_renamed_with_ledger_history_and_quarantine(self, lake: Any) -> None:
        lake.load("shop.orders")
        lake.catalog.create_table("shop.orders_quarantine", ROWS.schema)
        now = contract("sales.orders")
        lake.declare(now)
        lake.loaded = lambda _: False
        plan = renaming(lake, now)
        assert not_new(lake, now).fields["plan"] == plan.id, "by this name no run has loaded it"
        assert not_new(lake, contract("sales.clicks", topic="clicks")) is None
        [change] = plan.changes
        assert (plan.verdict, change.kind, change.old, change.new) == (
            "review",
            "rename",
            "shop.orders",
            "sales.orders",
        )
        begin_rename(lake, now, plan, Approval(plan.id, "ann", "moved"), "r")
        rename(lake, now, plan)
        finish(lake, now, lake.state("sales.orders"))
        assert renaming(lake, now) is None
        assert lake.state("sales.orders").ledger.next == {0: 2}
        assert [entry["by"] for entry in history(lake.state("sales.orders"))] == ["ann"]
        assert lake.catalog.table_exists("sales.orders_quarantine")
        assert lake.catalog.load_table("sales.orders").scan().to_arrow().num_rows == 2

    def test_is_renamed_though_an_earlier_attempt_died_in_the_middle(self, lake: Any) -> None:
        lake.load("shop.orders")
        lake.catalog.create_table("shop.orders_quarantine", ROWS.schema)
        now = contract("shop.bought")
        lake.declare(now)
        plan = renaming(lake, now)
        lake.catalog.rename_table("shop.orders_quarantine", "shop.bought_quarantine")
        again = renaming(lake, now)
        assert again.id == plan.id
        rename(lake, now, again)
        assert lake.state("shop.bought").exists

    def test_takes_its_upsert_table_along_wherever_that_was_and_nothing_that_only_looks_like_it(
        self, lake: Any
    ) -> None:
        was = contract("shop.orders", upsert={"keys": ["id"], "table": "shop.state"})
        now = contract("sales.orders", upsert={"keys": ["id"], "table": "marts.orders_state"})
        other = contract("shop.orders_current", topic="clicks")
        lake.load("shop.orders")
        lake.load("shop.orders_current", topic="clicks")
        lake.upsert("shop.state", "shop.orders")
        lake.remember(was)
        lake.declare(now, other)
        plan = renaming(lake, now)
        assert (
            "shop.state_deleted to marts.orders_state_deleted, shop.state to marts" in plan.changes[0].reason
        )
        assert "orders_current" not in plan.changes[0].reason
        rename(lake, now, plan)
        assert lake.upserts() == dict.fromkeys(
            ("marts.orders_state", "marts.orders_state_deleted"), "sales.orders"
        )
        assert lake.state("shop.orders_current").ledger.topic == "clicks"
        assert list(contract_edits(now, lake.state("sales.orders").properties)) == []

    def test_lets_its_upsert_table_know_though_that_keeps_its_name(self, lake: Any) -> None:
        now = contract("sales.orders", upsert={"keys": ["id"], "table": "shop.state"})
        lake.load("shop.orders")
        lake.upsert("shop.state", "shop.orders")
        lake.declare(now)
        rename(lake, now, renaming(lake, now))
        assert lake.upserts() == dict.fromkeys(("shop.state", "shop.state_deleted"), "sales.orders")

    def test_does_not_take_an_upsert_table_that_another_contract_names_or_in_whose_place_one_is(
        self, lake: Any
    ) -> None:
        now = contract("shop.bought", upsert={"keys": ["id"], "table": "shop.bought_current"})
        lake.load("shop.orders")
        lake.upsert("shop.orders_current", "shop.orders", memory=False)
        lake.upsert("shop.bought_current", "shop.elsewhere", memory=False)
        lake.declare(now)
        assert "_current" not in renaming(lake, now).changes[0].reason
        lake.catalog.drop_table("shop.bought_current")
        lake.declare(now, contract("shop.orders_current", topic="clicks"))
        assert "_current" not in renaming(lake, now).changes[0].reason

    def test_is_not_loaded_anew_where_its_name_is_to_be_the_upsert_tables(self, lake: Any) -> None:
        """Given a table whose name its contract gives to the upsert table, when planned or run, then nothing is made anew; with another upsert table it is renamed."""
        lake.load("shop.orders")
        now = contract("shop.orders_log", upsert={"keys": ["id"], "table": "shop.orders"})
        lake.declare(now)
        lake.loaded = lambda _: False
        plan = renaming(lake, now)
        assert (plan.verdict, plan.changes[0].old) == ("impossible", "shop.orders")
        assert "name another `upsert.table`" in plan.changes[0].reason
        assert not_new(lake, now).state == "schema_review"
        assert releases(lake) == []
        other = contract("shop.orders_log", upsert={"keys": ["id"], "table": "shop.orders_current"})
        lake.declare(other)
        assert renaming(lake, other).verdict == "review"

    def test_is_none_of_the_upsert_tables_that_are_there(self, lake: Any) -> None:
        """Given an append table that somebody has dropped, when it is planned, then its upsert table is not taken for a former one."""
        now = contract("shop.orders", upsert={"keys": ["id"], "table": "shop.orders_current"})
        lake.catalog.create_namespace("shop")
        lake.upsert("shop.orders_current", "shop.orders")
        lake.declare(now)
        assert renaming(lake, now) is None

    @pytest.mark.parametrize("steps", range(9))
    def test_may_die_after_any_step_and_ends_the_same_when_it_is_approved_again(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch, steps: int
    ) -> None:
        was = contract("shop.orders", upsert={"keys": ["id"], "table": "shop.orders_current"})
        now = contract("sales.orders", upsert={"keys": ["id"], "table": "sales.orders_current"})
        lake.load("shop.orders")
        lake.catalog.create_table("shop.orders_quarantine", ROWS.schema)
        lake.upsert("shop.orders_current", "shop.orders")
        lake.remember(was)
        lake.declare(now)
        plan, left = renaming(lake, now), iter(range(steps))

        def dying(act: Any) -> Any:
            def step(*arguments: Any) -> None:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                act(*arguments)

            return step

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(lake.catalog, "rename_table", dying(lake.catalog.rename_table))
            patched.setattr(takeover, "set_properties", dying(_set))
            rename(lake, now, plan)
        again = renaming(lake, now)
        assert (again is None) == (steps >= 7)
        if again is not None:
            assert again.id == plan.id
            rename(lake, now, again)
        assert lake.upserts() == dict.fromkeys(
            ("sales.orders_current", "sales.orders_current_deleted"), "sales.orders"
        )
        assert lake.catalog.table_exists("sales.orders_quarantine")
        assert list(contract_edits(now, lake.state("sales.orders").properties)) == []
        assert list(lake.catalog.list_tables("shop")) == []

    def test_takes_a_backfill_under_way_along_and_nothing_that_only_has_such_a_name(self, lake: Any) -> None:
        lake.load("shop.orders")
        now = contract("sales.orders")
        lake.declare(now)
        lake.catalog.create_table("shop.orders_backfill", ROWS.schema, properties={"tidemark.backfill": "{}"})
        lake.catalog.create_table("shop.orders_backfill_quarantine", ROWS.schema)
        plan = renaming(lake, now)
        assert "orders_backfill to sales.orders_backfill" in plan.changes[0].reason
        rename(lake, now, plan)
        assert list(lake.catalog.list_tables("shop")) == [("shop", "orders_backfill_quarantine")]
        assert sorted(lake.catalog.list_tables("sales")) == [
            ("sales", "orders"),
            ("sales", "orders_backfill"),
        ]

    def test_leaves_a_name_behind_that_no_other_table_gets_its_files_under(self, lake: Any) -> None:
        lake.load("shop.orders")
        now = contract("shop.bought")
        lake.declare(now)
        rename(lake, now, renaming(lake, now))
        assert taken_folder(lake, "shop.orders") == "shop.bought"
        lake.catalog.drop_table("shop.bought")
        assert taken_folder(lake, "shop.orders") is None

    def test_is_found_by_the_name_of_its_folder_though_it_was_renamed_again(self, lake: Any) -> None:
        lake.load("shop.orders")
        for name in ("shop.bought", "sales.orders"):
            lake.declare(contract(name))
            rename(lake, contract(name), renaming(lake, contract(name)))
        assert taken_folder(lake, "shop.orders") == "sales.orders"

    def test_is_renamed_back_and_leaves_no_folder_taken(self, lake: Any) -> None:
        lake.load("shop.orders")
        was, now = contract("shop.orders"), contract("shop.bought")
        lake.declare(now)
        rename(lake, now, renaming(lake, now))
        lake.declare(was)
        plan = renaming(lake, was)
        assert plan.verdict == "review"
        assert "--first-load" not in plan.changes[0].reason, "its folder is that of shop.bought"
        rename(lake, was, plan)
        assert lake.state("shop.orders").exists
        assert taken_folder(lake, "shop.bought") is None

    def test_that_was_first_loaded_during_the_look_is_not_told_as_missing(self, lake: Any) -> None:
        """Given a look that found no table and is told that a run has loaded it, then it looks once more at it and its topic."""
        before = lake.state("shop.orders")
        lake.load("shop.orders")
        topic = Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2})
        lake.kafka = lambda _: SimpleNamespace(describe_each=lambda names: dict.fromkeys(names, topic))
        [now] = hinted(lake, [Facts(contract("shop.orders"), before)], {"shop.orders": Hint(loaded=True)})
        assert (now.table.ledger.next, now.topic) == ({0: 2}, topic)
        assert judge(now, poll=timedelta(seconds=5), now=datetime.now(UTC)).state == "fresh"

    def test_is_not_told_as_missing_when_it_is_to_be_renamed_back_or_left_its_name(self, lake: Any) -> None:
        """Given a table that runs have loaded under a name, when the contract has that name again, then the plan waits; when another topic's has it, then its folder is in use; without a trace of it it is missing."""
        lake.load("shop.orders")
        now = contract("shop.bought")
        lake.declare(now)
        rename(lake, now, renaming(lake, now))
        lake.declare(contract("shop.orders"))
        back = gone(lake, "shop.orders")
        assert (back.state, back.fields["plan"]) == (
            "schema_review", renaming(lake, contract("shop.orders")).id
        )  # fmt: skip
        known = {"shop.orders": Hint(loaded=True)}
        for each in ({}, known):
            [facts] = hinted(lake, [Facts(contract("shop.orders"), lake.state("shop.orders"))], each)
            assert (facts.gone == "schema_review") == bool(each), "nobody looks for what was never there"
        lake.declare(now, contract("shop.orders", topic="clicks"))
        assert gone(lake, "shop.orders").state == "misconfigured"
        lake.catalog.drop_table("shop.bought")
        assert gone(lake, "shop.orders").state == "table_missing"

    def test_leaves_no_name_behind_for_another_upsert_table_either(self, lake: Any) -> None:
        now = contract("shop.bought", upsert={"keys": ["id"], "table": "shop.bought_current"})
        lake.load("shop.orders")
        lake.upsert("shop.orders_current", "shop.orders")
        lake.declare(now)
        rename(lake, now, renaming(lake, now))
        other = contract("shop.clicks", upsert={"keys": ["id"], "table": "shop.orders_current"})
        none = lake.state("shop.orders_current")
        with pytest.raises(Stopped, match=r"shop\.bought_current had this name before"):
            prepare(
                lake, UpsertTable(other, other.upsert), none, table_columns(Struct((Field("id", LONG),))), "r"
            )

    def test_is_renamed_where_only_the_case_of_a_name_differs_and_the_catalog_tells_case_apart(
        self, lake: Any
    ) -> None:
        """Given names that differ in case alone, when the catalog has the old ones only, then they are the former ones and move together; when it has both, then the old one is released, not hidden."""
        now = contract("shop.orders", upsert={"keys": ["id"], "table": "shop.orders_current"})
        lake.load("shop.Orders")
        lake.catalog.create_table("shop.Orders_quarantine", ROWS.schema)
        lake.upsert("shop.Orders_current", "shop.Orders", memory=False)
        lake.declare(now)
        plan = renaming(lake, now)
        assert releases(lake) == []
        rename(lake, now, plan)
        kept = {"orders", "orders_quarantine", "orders_current"}
        assert {name for _, name in lake.catalog.list_tables("shop")} == kept
        lake.load("shop.Orders")
        assert [each.table for each in releases(lake)] == ["shop.Orders"]

    def test_is_not_taken_for_a_former_one_where_the_catalog_ignores_case(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a catalog that lists `shop.orders` for a contract's `shop.Orders`, then it is that contract's, of which it is asked once."""
        lake.load("shop.orders")
        lake.load("shop.clicks", topic="clicks")
        asked: list[str] = []
        exists = lake.catalog.table_exists
        monkeypatch.setattr(
            lake.catalog, "table_exists", lambda name: asked.append(name) or exists(name.lower())
        )
        lake.declare(contract("shop.Orders"), contract("shop.Clicks", topic="clicks"))
        assert list(takeover.unclaimed(lake)) == []
        assert len(asked) == 1

    def test_is_not_guessed_among_several(self, lake: Any) -> None:
        lake.load("shop.orders")
        lake.load("shop.orders_old")
        now = contract("shop.bought")
        lake.declare(now)
        assert renaming(lake, now).verdict == "impossible"

    def test_is_not_taken_from_a_contract_that_has_it_nor_from_another_topic_or_cluster(
        self, lake: Any
    ) -> None:
        lake.load("shop.orders")
        lake.load("shop.clicks", topic="clicks")
        second = contract("shop.second")
        lake.declare(contract("shop.orders"), second)
        assert renaming(lake, second) is None
        elsewhere = contract("shop.other", cluster="eu")
        lake.declare(elsewhere)
        assert renaming(lake, elsewhere) is None

    def test_is_renamed_though_its_cluster_has_another_name_now(self, lake: Any) -> None:
        """Given a table that was made when its cluster had another name, then its id tells, not the name; without a ledger nothing does."""
        lake.load("shop.orders")
        now = contract("sales.orders", cluster="renamed")
        lake.declare(now)
        assert renaming(lake, now).changes[0].old == "shop.orders"
        assert releases(lake) == []
        said = {"tidemark.topic": "clicks", "tidemark.cluster": "main"}
        said["tidemark.contract-file"] = "/contracts/orders.yaml"
        lake.catalog.create_table("shop.clicks", ROWS.schema, properties=said).append(ROWS)
        unknown = contract("sales.clicks", topic="clicks", cluster="renamed")
        lake.declare(unknown)
        assert renaming(lake, unknown) is None

    def test_is_not_taken_from_another_contract_file(self, lake: Any) -> None:
        """Others may share the topic and the catalog, and their contracts are not seen here."""
        lake.load("sales.orders", file="/elsewhere/orders.yaml")
        ours = contract("shop.orders")
        lake.declare(ours)
        assert renaming(lake, ours) is None

    def test_is_looked_for_beside_namespaces_that_nobody_may_look_into(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.load("shop.orders")
        lake.catalog.create_namespace("theirs")
        list_tables = lake.catalog.list_tables

        def answers(space: Any) -> Any:
            if space == ("theirs",):
                raise ForbiddenError("no rights")
            return list_tables(space)

        monkeypatch.setattr(lake.catalog, "list_tables", answers)
        now = contract("sales.orders")
        lake.declare(now)
        assert renaming(lake, now).verdict == "review"

        def denied(*_: Any) -> Any:
            raise ForbiddenError("no rights")

        monkeypatch.setattr(lake.catalog, "list_namespaces", denied)
        assert renaming(lake, now) is None, "who may not look takes nothing for another name's"

    def test_is_looked_for_beside_a_table_that_alone_does_not_answer(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a foreign table whose bucket is elsewhere, when tables are loaded first or planned, then it stops none; one that may have been ours does: one that was read before, that a run has loaded, or that lies where contracts have tables."""
        lake.load("others.t", file="/elsewhere/orders.yaml")
        lake.load("theirs.t", file="/elsewhere/orders.yaml")
        lake.loaded = lambda table: table == "shop.orders"
        now = contract("sales.orders")
        lake.declare(now)
        away, load_table = {"theirs.t"}, lake.catalog.load_table

        def answers(identifier: str) -> Any:
            if identifier in away:
                raise ServerError("500")
            return load_table(identifier)

        monkeypatch.setattr(lake.catalog, "load_table", answers)
        assert [renaming(lake, now), renaming(lake, now)] == [None, None]
        assert [each.table for each in releases(lake)] == ["others.t"]
        lake.load("shop.orders")
        assert renaming(lake, now).verdict == "review"
        away.add("shop.orders")
        with pytest.raises(Outage):
            renaming(lake, now)
        lake.made_by.clear()
        with pytest.raises(Outage):
            renaming(lake, now)
        lake.load("sales.former")
        away = {"sales.former"}
        with pytest.raises(Outage):
            renaming(lake, now)

    def test_is_looked_for_beside_the_only_foreign_table_that_does_not_answer(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a catalog that has nothing but a table of others that never answers, then that stops no first load."""
        lake.load("theirs.t", file="/elsewhere/orders.yaml")
        lake.loaded = lambda _: False
        now = contract("sales.orders")
        lake.declare(now)
        monkeypatch.setattr(lake.catalog, "load_table", _failing(lake, "theirs.t", 9))
        assert (renaming(lake, now), releases(lake)) == (None, [])

    @pytest.mark.parametrize(("known", "failures"), [(False, 1), (True, 9)])
    def test_is_found_though_it_did_not_answer_where_no_contract_has_a_table_any_more(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch, *, known: bool, failures: int
    ) -> None:
        """Given a table that moved to another namespace, when it does not answer once, then it is asked again; where runs are known to have loaded it, its outage is one."""
        lake.load("lake.orders")
        lake.catalog.create_table("lake.orders_quarantine", ROWS.schema)
        lake.loaded = lambda table: known and table == "lake.orders"
        now = contract("prod.orders")
        lake.declare(now)
        monkeypatch.setattr(lake.catalog, "load_table", _failing(lake, "lake.orders", failures))
        if known:
            with pytest.raises(Outage) as outage:
                renaming(lake, now)
            assert "if it is gone for good" in outage.value.next_step
        else:
            assert renaming(lake, now).verdict == "review"

    @pytest.mark.parametrize("known", ["its topic", "this process", "another topic", "Dagster alone"])
    @pytest.mark.parametrize("error", [ForbiddenError, FileNotFoundError("gone.metadata.json")])
    def test_is_not_made_anew_where_the_old_one_may_not_be_read_or_lost_its_metadata(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch, known: str, error: Any
    ) -> None:
        """Given a table in another namespace that stops for good, when it is known to hold the topic, then so does the new name's first load, which says how to go on; another's, or what is no append table, stops nothing."""
        lake.load("lake.orders")
        now = contract("prod.orders")
        lake.declare(now, contract("lake.clicks", topic="clicks"))
        seen = {"its topic": "orders", "another topic": "clicks"}
        lake.configuration.loaded = {"lake.orders": ["main", seen[known]]} if known in seen else {}
        if known == "this process":
            renaming(lake, now)
        kind = error if isinstance(error, type) else lambda _: error
        monkeypatch.setattr(lake.catalog, "load_table", _failing(lake, "lake.orders", 9, kind))
        if known not in {"its topic", "this process"}:
            assert renaming(lake, now) is None
            return
        with pytest.raises(Stopped, match=r"lake\.orders is (permission_denied|table_missing)") as stopped:
            renaming(lake, now)
        assert "drop it from the catalog, or load" in stopped.value.next_step

    def test_is_renamed_without_its_ledger_too(self, lake: Any) -> None:
        """Given a table with rows whose ledger is gone, when the contract names it anew, then it is renamed, and stops under that name; so is one that was replaced by an empty one; one of another topic, or that was never loaded, is not meant."""
        for topic in ("orders", "clicks", "empty"):
            said = {"tidemark.topic": topic, "tidemark.contract-file": "/contracts/orders.yaml"}
            lake.catalog.create_namespace_if_not_exists("shop")
            made = lake.catalog.create_table(f"shop.{topic}", ROWS.schema, properties=said)
            if topic != "empty":
                made.append(ROWS)
        lake.load("shop.replaced", topic="replaced")
        table = lake.catalog.load_table("shop.replaced")
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, LEDGER_TAG).commit()
        commit(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
        now, empty = contract("shop.bought"), contract("shop.none", topic="empty")
        anew = contract("shop.anew", topic="replaced")
        lake.declare(now, empty, anew)
        plan = renaming(lake, now)
        assert (plan.verdict, plan.changes[0].old) == ("review", "shop.orders")
        assert "its ledger is gone" in plan.changes[0].reason
        assert renaming(lake, empty) is None
        former = renaming(lake, anew)
        assert former is not None
        assert former.changes[0].old == "shop.replaced"
        rename(lake, now, plan)
        with pytest.raises(Stopped, match="is ledger_missing"):
            lake.state("shop.bought")

    def test_is_looked_for_beside_a_dead_table_once_a_minute(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a foreign table that never answers and many new contracts, when all are planned, then it is asked twice, and again after a while."""
        lake.load("theirs.t", file="/elsewhere/orders.yaml")
        lake.loaded = lambda _: False
        ours = [contract(f"shop.t{number}") for number in range(4)]
        lake.declare(*ours)
        asked: list[str] = []

        def dead(identifier: str) -> Any:
            asked.append(identifier)
            raise ServerError("500")

        monkeypatch.setattr(lake.catalog, "load_table", dead)
        assert [renaming(lake, each) for each in ours] == [None] * 4
        assert asked == ["theirs.t"] * 2
        now = takeover.time.monotonic() + takeover.PASSED_OVER
        monkeypatch.setattr(takeover.time, "monotonic", lambda: now)
        renaming(lake, ours[0])
        assert asked == ["theirs.t"] * 4

    def test_is_looked_for_among_foreign_tables_once_however_many_are_loaded(
        self, lake: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(5):
            lake.load(f"others.t{number}", file="/elsewhere/orders.yaml")
        ours = [contract(f"shop.t{number}") for number in range(4)]
        lake.declare(*ours)
        looked: list[Any] = []
        load_table = lake.catalog.load_table
        monkeypatch.setattr(
            lake.catalog, "load_table", lambda identifier: looked.append(identifier) or load_table(identifier)
        )
        assert [renaming(lake, each) for each in ours] == [None] * 4
        assert len(looked) == 5
        lake.load("shop.orders")
        assert renaming(lake, ours[0]).verdict == "review"


@pytest.mark.parametrize("theirs", [False, True])
def test_a_table_follows_its_file_and_topic_with_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, theirs: bool
) -> None:
    """Given a contract file that was moved and whose topic was renamed, when it is run and then names its table anew, then that is a rename; another's table that it names by mistake stays another's."""
    lake = lake_in(tmp_path, ORDERS)
    monkeypatch.setattr(first_load, "set_properties", _set)
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    columns = table_columns(Struct((Field("id", LONG), Field("_extra", STRING))))
    was = {"tidemark.topic": "was", "tidemark.cluster": "was", "tidemark.contract-file": "/was.yaml"}
    made = lake.catalog.create_table(
        "shop.orders", Schema(*iceberg_fields(columns.fields, count(1))), properties=was
    )
    ledger = Ledger(cluster_id="c", topic_id="u" if theirs else "t", topic="orders", next={0: 2})
    made.append(
        made.schema().as_arrow().empty_table(), snapshot_properties={LEDGER_PROPERTY: ledger.to_json()}
    )
    commit(made, (), (ref_at(LEDGER_TAG, "tag", made.current_snapshot().snapshot_id),))
    with nullcontext() if not theirs else pytest.raises(Stopped, match="topic_recreated"):
        make_plan(lake, lake.configuration.contract("shop.orders"), "r", Limits(loaded_before=True))
    said = lake.state("shop.orders").properties
    assert {key: said[key] for key in was} == (
        was
        if theirs
        else {
            "tidemark.topic": "orders",
            "tidemark.cluster": "main",
            "tidemark.contract-file": f"{tmp_path}/contracts/orders.yaml",
        }
    )
    (tmp_path / "contracts" / "orders.yaml").write_text(ORDERS.replace("shop.orders", "shop.bought"))
    lake.configuration = load(tmp_path / "platform.yaml", tmp_path / "contracts", environ={}, home=tmp_path)
    plan = renaming(lake, lake.configuration.contract("shop.bought"))
    assert (plan is None) == theirs


class TestATableWithoutAContract:
    def test_is_released_and_stays(self, lake: Any) -> None:
        lake.load("shop.orders")
        lake.load("shop.clicks", topic="clicks")
        lake.declare(contract("shop.clicks", topic="clicks"))
        [plan] = releases(lake)
        assert (plan.table, plan.verdict, plan.changes[0].kind) == ("shop.orders", "apply", "release")
        assert lake.state("shop.orders").rows == 2

    def test_is_not_released_when_its_contract_only_renames_it(self, lake: Any) -> None:
        lake.load("shop.orders")
        lake.declare(contract("shop.bought"))
        assert releases(lake) == []

    def test_of_someone_else_is_none_of_ours(self, lake: Any) -> None:
        lake.catalog.create_namespace("marts")
        lake.catalog.create_table("marts.theirs", ROWS.schema)
        assert releases(lake) == []


class TestATableOfSomeoneElse:
    def test_is_adopted_when_its_columns_fit_and_refused_with_the_columns_when_not(self, lake: Any) -> None:
        lake.catalog.create_namespace("shop")
        lake.catalog.create_table("shop.orders", ROWS.schema)
        said = contract("shop.orders")
        change = adoption(said, lake.state("shop.orders"), Struct((Field("id", LONG), Field("note", STRING))))
        assert (change.kind, change.verdict) == ("adopt", "impossible")
        assert "note: missing" in change.reason
        assert "_kafka: missing" in change.reason

    def test_that_lost_its_properties_goes_on_where_its_ledger_ends(self, lake: Any) -> None:
        lake.load("shop.orders")
        said, needs = contract("shop.orders"), Struct((Field("id", LONG),))
        known = replace(lake.state("shop.orders"), properties={}, columns=table_columns(needs))
        assert known.ledger
        told = [adoption(said, each, needs).reason for each in (known, replace(known, ledger=None))]
        assert ["goes on where its ledger ends" in each for each in told] == [True, False]

    def test_is_ours_once_it_was_adopted(self, lake: Any) -> None:
        lake.load("shop.orders")
        assert adoption(contract("shop.orders"), lake.state("shop.orders"), None) is None
