"""`run --json` is read from the events of the Dagster run, whatever became of it."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from assets.runs.snapshot_ids import ids_as_numbers, ids_as_text
from jobs.upsert import MERGE
from tidemark.cli.border import FINDING, INTERRUPTED, report
from tidemark.cli.change import _operation, remade
from tidemark.cli.contracts import load_contracts
from tidemark.cli.main import app
from tidemark.cli.run import ended_early, told_by
from tidemark.cli.status import statuses
from tidemark.cli.unrun import as_append, as_outcome
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Interrupted, Outage, Overtaken, Refused, Stopped, TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.look.run_outcome import outcome_of
from tidemark.engine.look.status import Facts, judge

KEYS = ["table", "state", "commits", "rows", "from", "next", "snapshot_id", "seconds", "error"]


def events(*, stopped: bool, crashed: bool = False) -> Any:
    good = Outcome("shop.orders", "fresh", commits=2, from_={0: 0}, next={0: 9}, snapshot_id=2**60).as_json()
    bad = Outcome("shop.bad", "topic_missing", error={"message": "gone"}).as_json()

    @dg.multi_asset(
        specs=[dg.AssetSpec(key, skippable=True) for key in (["shop", "orders"], ["shop", "bad"])]
    )
    def ingest() -> Iterator[dg.MaterializeResult[None]]:
        shown = {"tidemark/outcome": ids_as_text(good)}
        yield dg.MaterializeResult(asset_key=["shop", "orders"], metadata=shown)
        if crashed:
            raise RuntimeError("out of memory")
        if stopped:
            raise dg.Failure("stopped", metadata={"tidemark/outcomes": dg.MetadataValue.json([bad])})

    return dg.materialize([ingest], raise_on_error=False).all_events


def test_outcomes_come_from_materializations_and_from_the_failure() -> None:
    told = told_by(events(stopped=True))
    assert {table: each["state"] for table, each in told.items()} == {
        "shop.orders": "fresh",
        "shop.bad": "topic_missing",
    }
    assert told["shop.orders"]["snapshot_id"] == 2**60
    assert all(list(each) == KEYS for each in told.values())


def test_ids_that_a_browser_would_round_are_numbers_in_json() -> None:
    newest, oldest = 2**60, 2**61
    told = {
        "arguments": {"receipt": newest, "source_snapshot": oldest, "windows": [{"snapshot_id": newest}]},
        "error": {"oldest": oldest, "planned": oldest, "found": newest},
        "reason": str(newest),
    }
    assert ids_as_numbers(ids_as_text(told)) == told


def test_a_paused_table_whose_records_wait_has_not_caught_up() -> None:
    """Given two paused tables, when records of one wait, then a script is told so, with what to do, and only of that one."""

    @dg.multi_asset(specs=[dg.AssetSpec(key) for key in (["shop", "orders"], ["shop", "idle"])])
    def ingest() -> Iterator[dg.MaterializeResult[None]]:
        for table, waits in (("orders", 3), ("idle", 0)):
            outcome = Outcome(f"shop.{table}", "paused", next={0: 9}).as_json()
            metadata = {"tidemark/outcome": outcome, "lag_records": waits}
            yield dg.MaterializeResult(asset_key=["shop", table], metadata=metadata)

    told = told_by(dg.materialize([ingest]).all_events)
    assert told["shop.idle"]["error"] is None
    error = told["shop.orders"]["error"]
    assert (told["shop.orders"]["state"], error["state"]) == ("paused", "paused")
    assert "3 records wait" in error["message"]
    assert error["next_step"].startswith("tidemark resume shop.orders")


def test_a_run_that_went_well_tells_of_its_tables_alone() -> None:
    assert list(told_by(events(stopped=False))) == ["shop.orders"]


def test_a_run_has_its_say_on_each_table_unless_it_crashed_or_was_cut_off() -> None:
    """Given a run that says nothing of a table, when it came to its end, then there was nothing to do: what another table stopped for is not its error."""
    assert ended_early(events(stopped=False)) is None
    assert ended_early(events(stopped=True)) is None
    assert ended_early(events(stopped=False, crashed=True)) == "RuntimeError: out of memory"
    assert ended_early([]) == "it was cut off"


def test_an_error_that_came_through_dagster_is_the_kind_it_was() -> None:
    for error in (
        Refused("no", next_step="do", table="a.b"),
        Stopped("topic_recreated", "a.b", "why", topic_id="x"),
        Stopped("topic_missing", "a.b", "", topic="orders", cluster="old"),
        Outage("spark_down", "a.b", "why"),
        Overtaken("a.b", 1, 2),
        TidemarkError("what", next_step="do"),
    ):
        fields = error.as_json()
        kind, message, next_step = (fields.pop(key) for key in ("kind", "message", "next_step"))
        again = remade(kind, message, next_step, fields)
        assert type(again) is type(error)
        assert again.as_json() == error.as_json()


def test_a_verb_tells_the_cause_of_a_fault_and_not_dagster_s_wrapper(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Given a verb that fails by a fault of ours, when its run is read, then the error has the cause's words, and it is no bad use."""

    @dg.op
    def breaks() -> None:
        raise KeyError("tidemark")

    @dg.job
    def verb() -> None:
        breaks()

    with pytest.raises(TidemarkError, match="KeyError: 'tidemark'") as told:
        _operation(verb.execute_in_process(raise_on_error=False), "verb")
    assert report(told.value, as_json=True) == FINDING
    capsys.readouterr()


def job_of(name: str, step: Callable[[], None] = lambda: None) -> dg.JobDefinition:
    """A job of one step."""

    @dg.op
    def works() -> None:
        step()

    @dg.job(name=name)
    def made() -> None:
        works()

    return made


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_verb_that_is_interrupted_names_the_command_that_does_it_again(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a verb at work, when Ctrl-C or SIGTERM ends it, then that is what it says, with exit code 130, and no fault of ours."""
    monkeypatch.setattr(sys, "argv", ["tidemark", "replay", "shop.orders", "--reason", "as agreed"])
    replay = job_of("replay", lambda: signal.raise_signal(number))

    with pytest.raises(Interrupted) as told:
        _operation(replay.execute_in_process(raise_on_error=False), "replay")
    assert report(told.value, as_json=True) == INTERRUPTED
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["next_step"] == "tidemark replay shop.orders --reason 'as agreed'"


def test_a_verb_that_is_interrupted_outside_of_its_step_says_so_too() -> None:
    """Given a verb whose resource is being opened, when Ctrl-C comes, then it is interrupted, though no step has failed."""

    @dg.resource
    def opens(_context: object) -> None:
        signal.raise_signal(signal.SIGINT)

    @dg.op(required_resource_keys={"opens"})
    def works() -> None:
        raise AssertionError

    @dg.job(resource_defs={"opens": opens})
    def verb() -> None:
        works()

    result = verb.execute_in_process(raise_on_error=False)
    assert not any(event.is_step_failure for event in result.all_events)
    with pytest.raises(Interrupted):
        _operation(result, "verb")


PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}}
catalog: {name: lake, type: sql, uri: "sqlite:////nowhere/c.db", warehouse: "file:///nowhere"}
spark: {remote: "sc://127.0.0.1:1"}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One contract with an upsert table."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text("topic: orders\ntable: shop.orders\nupsert: [id]\n")
    (tmp_path / "platform.yaml").write_text(PLATFORM)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(tmp_path / "contracts"))
    monkeypatch.setattr("tidemark.cli.run.dagster_instance", dg.instance_for_test)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_tells_of_upsert_tables_too(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a table and its upsert table, when Ctrl-C or the end of the terminal ends the ingest, then both have an object, and nothing is merged."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    ran: list[str] = []
    ingest = job_of("ingest", lambda: signal.raise_signal(number))

    def execute(_instance: object, job: str, **_options: object) -> dg.ExecuteInProcessResult:
        ran.append(job)
        return ingest.execute_in_process(raise_on_error=False)

    monkeypatch.setattr("tidemark.cli.run.execute", execute)
    told = CliRunner().invoke(app, ["run", "--json"])
    assert (told.exit_code, ran) == (INTERRUPTED, ["ingest"])
    outcomes = {each["table"]: each for each in json.loads(told.stdout)}
    assert list(outcomes) == ["shop.orders", "shop.orders_current"]
    assert {each["error"]["kind"] for each in outcomes.values()} == {"Unfinished"}
    assert all(list(each) == KEYS for each in outcomes.values())


@pytest.mark.usefixtures("home")
def test_a_run_that_is_interrupted_before_its_merge_tells_what_was_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a table and its upsert table, when Ctrl-C comes after the ingest and before the merge has begun, then a script reads what was published."""
    published = ids_as_text(Outcome("shop.orders", "fresh", commits=2).as_json())

    @dg.asset(key=["shop", "orders"])
    def orders() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"tidemark/outcome": published})

    def execute(_instance: object, job: str, **_options: object) -> dg.ExecuteInProcessResult:
        if job == MERGE:
            signal.raise_signal(signal.SIGINT)
        return dg.materialize([orders])

    monkeypatch.setattr("tidemark.cli.run.execute", execute)
    told = CliRunner().invoke(app, ["run", "--json"])
    orders_told, current = json.loads(told.stdout)
    assert (told.exit_code, orders_told["commits"], orders_told["error"]) == (INTERRUPTED, 2, None)
    assert (current["table"], current["error"]["kind"]) == ("shop.orders_current", "Unfinished")


@pytest.mark.usefixtures("home")
def test_a_catalog_that_does_not_answer_is_asked_once_what_an_interrupted_run_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two tables and a catalog that is down, when Ctrl-C ends their run, then one look is enough to tell that nobody knows."""
    (tmp_path / "contracts" / "carts.yaml").write_text("topic: carts\ntable: shop.carts\n")
    asked: list[object] = []
    ingest = job_of("ingest", lambda: signal.raise_signal(signal.SIGINT))

    def look(*of: Any) -> Outcome:
        asked.append(of)
        return outcome_of(*of)

    monkeypatch.setattr("tidemark.cli.run.outcome_of", look)
    monkeypatch.setattr(
        "tidemark.cli.run.execute", lambda *_, **__: ingest.execute_in_process(raise_on_error=False)
    )
    told = CliRunner().invoke(app, ["run", "shop.carts", "shop.orders", "--json"])
    kinds = {each["table"]: each["error"]["kind"] for each in json.loads(told.stdout)}
    assert (told.exit_code, len(asked)) == (INTERRUPTED, 1)
    assert kinds == dict.fromkeys(("shop.carts", "shop.orders", "shop.orders_current"), "Unfinished")


@pytest.mark.usefixtures("home")
def test_a_run_that_is_interrupted_when_all_is_told_says_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a run whose outcomes are printed, when Ctrl-C comes while it notes what waits, then they are all it prints."""
    ends = job_of("ends")

    monkeypatch.setattr("tidemark.cli.run.execute", lambda *_, **__: ends.execute_in_process())
    monkeypatch.setattr("tidemark.cli.run._remember", lambda *_: signal.raise_signal(signal.SIGINT))
    told = CliRunner().invoke(app, ["run", "--json"])
    assert (told.exit_code, len(json.loads(told.stdout))) == (0, 2)


def test_an_upsert_table_that_is_not_there_stands_as_its_append_table():
    """Given an append table that stopped before its first load, when nothing is told of its upsert table, then that has stopped too; else it is fresh."""
    error = {"message": "shop.orders is misconfigured", "state": "misconfigured"}
    for state, why in (("misconfigured", error), ("fresh", None)):
        append = {"table": "shop.orders", "state": state, "error": why}
        found = as_append("shop.orders_current", append)
        assert (found["table"], found["state"], found["error"]) == ("shop.orders_current", state, why)


@pytest.mark.usefixtures("home")
def test_an_upsert_table_alone_that_is_not_there_stands_as_status_says(tmp_path, monkeypatch):
    """Given an append table that was never loaded, of a cluster that does not answer, when its upsert table alone is run, then a script is told that Kafka is down."""
    (tmp_path / "platform.yaml").write_text(PLATFORM.replace("/nowhere", str(tmp_path)))
    monkeypatch.setattr("tidemark.engine.access.kafka.TIMEOUT", 0.5)
    ends = job_of("ends")

    monkeypatch.setattr("tidemark.cli.run.execute", lambda *_, **__: ends.execute_in_process())
    told = CliRunner().invoke(app, ["run", "shop.orders_current", "--json"])
    [outcome] = json.loads(told.stdout)
    assert (told.exit_code, outcome["table"], outcome["state"]) == (
        FINDING,
        "shop.orders_current",
        "kafka_down",
    )
    assert (outcome["error"]["kind"], outcome["error"]["table"]) == ("Outage", "shop.orders")
    stands = CliRunner().invoke(app, ["status", "shop.orders_current", "--json"])
    assert [each["state"] for each in json.loads(stands.stdout)] == ["kafka_down"]


@pytest.mark.parametrize(("waits", "told"), [(3, "3 records wait"), (0, None)])
def test_an_upsert_table_alone_whose_append_table_is_paused_has_not_caught_up(waits, told):
    """Given an append table that is paused, when its upsert table alone is run and is not there, then a script is told so where records wait."""
    contract = Contract.model_validate({"topic": "orders", "table": "shop.orders"})
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: 0}, next={0: 0})
    table = TableState("shop.orders", exists=True, ledger=ledger, properties={"tidemark.paused": "x"})
    topic = Topic("orders", "c", "t", {0: 0}, {0: waits}, {0: waits})
    stands = judge(
        Facts(contract, table=table, topic=topic, quarantined=0),
        poll=timedelta(seconds=5),
        now=datetime.now(UTC),
    )
    found = as_append("shop.orders_current", as_outcome(stands, "main"))
    assert found["state"] == "paused"
    assert found["error"] is None if told is None else told in found["error"]["message"]


@pytest.mark.usefixtures("home")
def test_status_asks_a_cluster_once_for_a_table_and_its_upsert_table(tmp_path, monkeypatch):
    """Given neither table of a cluster that does not answer, when their status is asked, then it is waited for once, and both are down."""
    (tmp_path / "platform.yaml").write_text(PLATFORM.replace("/nowhere", str(tmp_path)))
    monkeypatch.setattr("tidemark.engine.access.kafka.TIMEOUT", 0.5)
    asked = []
    ask = KafkaAdmin.describe_each
    monkeypatch.setattr(KafkaAdmin, "describe_each", lambda *told: asked.append(told) or ask(*told))
    found = statuses(Lake(load_contracts()), [])
    assert ([each.state for each in found], len(asked)) == (["kafka_down"] * 2, 1)
