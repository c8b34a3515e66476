"""Rule: an act that is refused names the step that helps, and one that took place is logged, whatever came between."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dying import dying_at
from unserved import ORDERS, lake_in

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Outage, Overtaken, Refused, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import ACT_PROPERTY, BATCH_PROPERTY, LEDGER_PROPERTY, Ledger
from tidemark.domain.lineage.column_lineage import exposures, lineage_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import made_at
from tidemark.engine.access.table_state import (
    ACCEPTED,
    ACCEPTED_BATCH,
    HELD_BATCH,
    OWNED,
    PAUSED,
    RESUMED,
    UPSERT_OF,
)
from tidemark.engine.config import discovery
from tidemark.engine.config.discovery import Discovery
from tidemark.engine.ingest.held import accepted_batch, held_batch
from tidemark.engine.look import headroom
from tidemark.engine.operate import accept as accepting
from tidemark.engine.operate import pause as pausing
from tidemark.engine.operate import rollback as rolling
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.accept_upsert import accept_upsert
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.pause import pause, resume
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.evolve import plan_evolution
from tidemark.engine.schema.history import history
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table import publish as publishing
from tidemark.engine.table import races, takeover
from tidemark.engine.table.first_load import DECLARED_IN, contract_file
from tidemark.engine.table.operations import Signature, log_operation, log_table, record
from tidemark.engine.table.takeover import renaming
from tidemark.engine.table.unlogged import _missing, act_of, log_missing_acceptance, log_missing_acts

ANN = Signature("ann", "it was so", "run-1")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
RECEIPT = {LEDGER_PROPERTY: Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2}).to_json()}


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties of tables are set without it."""
    for module in (accepting, pausing, rolling):
        monkeypatch.setattr(module, "set_properties", _set)


def _set(lake: Lake, table: str, properties: Mapping[str, str | None]) -> None:
    with lake.catalog.load_table(table).transaction() as transaction:
        there = transaction.table_metadata.properties
        transaction.remove_properties(*(k for k, text in properties.items() if text is None and k in there))
        transaction.set_properties({k: text for k, text in properties.items() if text is not None})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table shop.orders that nothing was written to yet, with an upsert table in its contract; no service runs."""
    made = lake_in(tmp_path, f"{ORDERS}upsert: {{keys: [id]}}\n")
    made.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    return made


@pytest.fixture
def contract(lake: Lake) -> Contract:
    return lake.configuration.contract("shop.orders")


def _append(lake: Lake, summary: dict[str, str]) -> None:
    lake.catalog.load_table("shop.orders").append(ROWS, snapshot_properties=summary)


def _stopped(act: Callable[..., Any], *asked: Any) -> Stopped:
    with pytest.raises(Stopped) as stopped:
        act(*asked)
    return stopped.value


def test_a_first_load_of_a_table_at_half_of_a_commit_is_not_what_helps(
    lake: Lake, contract: Contract
) -> None:
    """Given main at rows whose receipt came later, when a first load is accepted, then it stops as a run does, with the rollback as its step."""
    for summary in (RECEIPT, {BATCH_PROPERTY: "b"}):
        _append(lake, summary)
    told = _stopped(accept, lake, contract, "first-load", ANN)
    assert told.message == _stopped(lake.state, "shop.orders").message
    assert told.next_step.startswith("tidemark rollback shop.orders --snapshot ")


def test_a_first_load_of_an_upsert_table_stops_as_its_append_table_does(lake: Lake) -> None:
    """Given an append table whose ledger is gone, when its upsert table is accepted, then that is told, and not that it was never loaded."""
    _append(lake, {})
    current = upsert_tables(lake.configuration.contracts)["shop.orders_current"]
    told = _stopped(accept_upsert, lake, current, "first-load", ANN)
    assert (told.state, told.table) == ("ledger_missing", "shop.orders")


def test_a_rollback_that_fails_on_its_way_leaves_no_word_of_one_that_took_place(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two loads, and a resumption that died before its row, when the rollback of one finds no Spark, then the table is paused for it, nothing says that it was rolled back, and the resumption is logged."""
    monkeypatch.setattr(headroom, "TIMEOUT", 0.5)  # no broker is there
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    for _ in range(2):
        _append(lake, RECEIPT)
    pause(lake, contract, ANN)
    with dying_at(monkeypatch, "unrecorded"):
        resume(lake, contract, Signature("bob", "me too", "run-2"))
    first = lake.catalog.load_table("shop.orders").metadata.snapshots[0].snapshot_id
    with pytest.raises(Outage, match="spark_down") as failed:
        rollback(lake, contract, Target(first), ANN)
    told = "shop.orders is paused for the rollback: repeat it, or tidemark resume"
    assert (told in failed.value.next_step, told in str(failed.value)) == (True, True)
    properties = lake.state("shop.orders").properties
    assert json.loads(properties[PAUSED])["reason"] == f"for a rollback to snapshot {first}: it was so"
    assert _logged(lake) == {("pause", "ann"), ("resume", "bob")}
    assert RESUMED not in properties

    def kafka_down(_: Contract) -> Topic:
        raise Outage("kafka_down", "shop.orders", "gone")

    monkeypatch.setattr(lake, "topic", kafka_down)
    with pytest.raises(Outage, match="kafka_down") as failed:
        rollback(lake, contract, Target(first), ANN)
    assert failed.value.next_step.count(told) == 1, "repeated behind its own pause"
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    with pytest.raises(Refused, match="is not among the 2 snapshots") as refused:
        rollback(lake, contract, Target(999), ANN)
    assert refused.value.next_step.endswith("for the rollback: tidemark resume shop.orders --reason …"), (
        "repeated, it is refused again"
    )


def test_a_rollback_takes_back_that_a_batch_was_accepted(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an accepted batch whose run died between its receipt and the notes, when it is rolled back, then the table stands before it, and nobody has accepted it."""
    monkeypatch.setattr(headroom, "TIMEOUT", 0.5)
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    monkeypatch.setattr(lake, "require_spark", lambda: None)
    _append(lake, RECEIPT)
    first = lake.catalog.load_table("shop.orders").metadata.snapshots[0].snapshot_id
    _set(lake, "shop.orders", dict.fromkeys((HELD_BATCH, ACCEPTED_BATCH), "epoch 0,0:2-4"))
    assert accepted_batch(lake.state("shop.orders"))
    later = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 4})
    _append(lake, {LEDGER_PROPERTY: later.to_json()})
    rollback(lake, contract, Target(first), ANN)
    state = lake.state("shop.orders")
    assert state.ledger is not None
    assert (state.ledger.next, held_batch(state), accepted_batch(state)) == ({0: 2}, None, None)


def test_a_rollback_behind_a_pause_names_no_other_pause(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a table that somebody paused, when its rollback fails, then nothing says that the rollback has paused it; overtaken all the time, it does not ask for the pause that there is."""
    monkeypatch.setattr(headroom, "TIMEOUT", 0.5)
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    monkeypatch.setattr(races.time, "sleep", lambda _: None)
    for _ in range(2):
        _append(lake, RECEIPT)
    first = lake.catalog.load_table("shop.orders").metadata.snapshots[0].snapshot_id
    pause(lake, contract, ANN)
    with pytest.raises(Outage, match="spark_down") as failed:
        rollback(lake, contract, Target(first), ANN)
    assert "paused for the rollback" not in str(failed.value)

    def compacted(*_: Any) -> None:
        raise Overtaken("shop.orders", 1, 2)

    monkeypatch.setattr(rolling, "_publish", compacted)
    with pytest.raises(Refused, match="overtaken 6 times") as refused:
        rollback(lake, contract, Target(first), ANN)
    assert refused.value.next_step.startswith("repeat it once the maintenance of shop.orders is over")
    assert "tidemark pause" not in str(refused.value)


@pytest.fixture
def with_kafka(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka has all that the table has read; nothing is asked of Spark."""
    monkeypatch.setattr(rolling, "compacted", lambda *_: False)
    monkeypatch.setattr(lake, "topic", lambda _: Topic("orders", "c", "t", {0: 0}, {0: 9}, {0: 9}))
    monkeypatch.setattr(lake, "require_spark", lambda: None)


def _loads(lake: Lake, count: int) -> list[int]:
    """So many batches of two offsets; their snapshots."""
    for following in range(2, 2 * count + 1, 2):
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: following})
        _append(lake, {LEDGER_PROPERTY: ledger.to_json()})
    return [each.snapshot_id for each in lake.catalog.load_table("shop.orders").metadata.snapshots]


@pytest.mark.usefixtures("with_kafka")
def test_a_rollback_leaves_its_table_paused_though_somebody_resumes_it_meanwhile(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a rollback about to publish, when somebody resumes the table in that moment, then it stands at the target and is paused: the range waits for the contract to be mended."""
    first, _ = _loads(lake, 2)

    def meanwhile(point: str) -> None:
        if point == "publishing":
            resume(lake, contract, Signature("bob", "me too", "run-2"))

    monkeypatch.setattr(publishing, "pause_point", meanwhile)
    rollback(lake, contract, Target(first), ANN)
    state = lake.state("shop.orders")
    assert state.ledger is not None
    assert (state.ledger.next, state.paused) == ({0: 2}, True)
    assert _logged(lake) == {("rollback", "ann"), ("resume", "bob")}


@pytest.mark.usefixtures("with_kafka")
def test_a_rollback_to_another_target_says_why_the_table_is_paused(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a rollback that died before its receipt, when somebody else rolls back to another snapshot, then the table says whose pause it is and for what; repeated, the note stays as it is, and so does that of a person's pause."""
    first, second, _ = _loads(lake, 3)
    with dying_at(monkeypatch, "publishing"):
        rollback(lake, contract, Target(second), ANN)

    def note() -> dict[str, str]:
        found: dict[str, str] = json.loads(lake.state("shop.orders").properties[PAUSED])
        return found

    assert note()["reason"] == f"for a rollback to snapshot {second}: it was so"
    bob = Signature("bob", "earlier", "run-2")
    rollback(lake, contract, Target(first), bob)
    said = note()
    assert (said["by"], said["reason"]) == ("bob", f"for a rollback to snapshot {first}: earlier")
    rollback(lake, contract, Target(first), replace(bob, run_id="run-3"))
    assert note() == said
    resume(lake, contract, replace(ANN, run_id="run-4"))
    pause(lake, contract, replace(ANN, run_id="run-5"))
    rollback(lake, contract, Target(first), replace(bob, run_id="run-6"))
    assert note()["reason"] == "it was so"


@pytest.mark.usefixtures("with_kafka")
def test_what_a_rollback_took_back_is_read_again_and_not_rolled_forward(
    lake: Lake, contract: Contract
) -> None:
    """Given a rollback to the wrong snapshot, when somebody names what it took back, then the refusal names the rollback and how its records come back; for what nobody took back it does not."""
    first, second, third = _loads(lake, 3)
    rollback(lake, contract, Target(first), ANN)
    by = lake.state("shop.orders").receipt
    for undone in (second, third):
        with pytest.raises(Refused, match=f"snapshot {undone} is not among the 2 snapshots") as refused:
            rollback(lake, contract, Target(undone), ANN)
        assert refused.value.next_step.startswith(f"snapshot {by} is the rollback that took it back: ")
        assert "tidemark resume shop.orders" in refused.value.next_step
    with pytest.raises(Refused, match="snapshot 999 is not among") as refused:
        rollback(lake, contract, Target(999), ANN)
    assert "took it back" not in refused.value.next_step


def test_a_backfill_from_a_cluster_that_nobody_knows_names_those_that_are_known(
    lake: Lake, contract: Contract
) -> None:
    """Given a source on a cluster that platform.yaml does not have, when a backfill is to begin, then that is refused, with the clusters that it has."""
    _append(lake, RECEIPT)
    asked = Asked("topic:old/orders", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    with pytest.raises(Refused, match="no Kafka cluster old") as refused:
        backfill(lake, contract, asked, replace(ANN, dry_run=True))
    assert refused.value.next_step == "name one of: main"


def test_a_table_that_lost_its_ledger_is_renamed_and_that_is_logged(tmp_path: Path) -> None:
    """Given a table of the contract's file and topic with rows and no ledger under another name, when the rename is approved, then the table has the name, its history and the log have the act, and the table says what it lacks."""
    lake = lake_in(tmp_path, ORDERS)
    now = lake.configuration.contract("shop.orders")
    made = {OWNED: "orders", DECLARED_IN: contract_file(lake, now)}
    lake.catalog.create_table("shop.before", ROWS.schema, properties=made).append(ROWS)
    plan = renaming(lake, now)
    assert plan is not None
    approve(lake, now, plan.id, ANN)
    assert [each["by"] for each in history(lake.state("shop.orders", ledger=False))] == ["ann"]
    assert _logged(lake) == {("approve", "ann")}
    assert _stopped(lake.state, "shop.orders").state == "ledger_missing"


def test_tags_of_what_a_mart_has_kept_outlive_the_rename_of_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given marts that keep personal data of a table and of its upsert table, when these are renamed, then the data is told as theirs before the first build that sees the new names."""
    monkeypatch.setattr(takeover, "set_properties", _set)
    lake = lake_in(tmp_path, f"{ORDERS}upsert: {{keys: [id]}}\ncolumns: {{email: {{tags: [pii]}}}}\n")
    now = lake.configuration.contract("shop.orders")
    made = {OWNED: "orders", DECLARED_IN: contract_file(lake, now)}
    lake.catalog.create_table("shop.before", ROWS.schema, properties=made).append(ROWS)
    lake.catalog.create_table("shop.before_current", ROWS.schema, properties={UPSERT_OF: "shop.before"})
    marts = {"marts.mails": "shop.before", "marts.people": "shop.before_current"}
    for mart, table in marts.items():
        column = {"name": "mail", "type": "string", "from": [[table, "email"], ["shop.other", "email"]]}
        discovery.update(tmp_path, partial(Discovery.with_described, table=mart, columns=[column]))
    discovery.update(tmp_path, lambda seen: seen.with_described("shop.before", [{"name": "email"}]))

    def tell(names: Mapping[str, str]) -> None:
        discovery.update(tmp_path, lambda seen: seen.with_renamed(names))

    plan = renaming(lake, now)
    assert plan is not None
    approve(lake, now, plan.id, ANN, tell)
    seen = discovery.read(tmp_path)
    lineage = lineage_of(seen.described(), [now])
    shown = [str(each) for mart in marts for each in exposures(lineage, [now], mart)]
    assert shown == [f"{mart}.mail carries pii of shop.orders.email" for mart in marts]
    assert ["shop.other", "email"] in seen.columns("marts.mails")[0]["from"]
    assert (seen.columns("shop.orders"), seen.columns("shop.before")) == ([{"name": "email"}], [])


def test_an_approval_logs_the_changes_that_it_made(tmp_path: Path) -> None:
    """Given a plan of a new column that waits and of a type that no approval can change, when it is approved, then the log has the column alone."""
    said = ORDERS.replace("{id: bigint}", "{id: string, note: string}")
    lake = lake_in(tmp_path, f"{said}schema_changes: {{add_column: review}}\n")
    lake.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    _append(lake, RECEIPT)
    contract = lake.configuration.contract("shop.orders")
    state = lake.state("shop.orders")
    waits = plan_evolution(contract, state, read_schemas(lake, contract, state))
    assert waits.of("impossible")
    approve(lake, contract, waits.id, ANN)
    [done] = history(lake.state("shop.orders"))
    [row] = lake.catalog.load_table(log_table(lake)).scan().to_arrow().to_pylist()
    assert json.loads(row["arguments"])["changes"] == done["changes"]
    assert "note" in {each["path"] for each in done["changes"]}
    assert "impossible" not in {each["verdict"] for each in done["changes"]}


def test_the_log_keeps_no_values_of_rows_that_broke_a_rule(lake: Lake) -> None:
    """Given a backfill of rows that break a rule, when it is logged, then whoever asked sees their values, and the log, which nobody erases, tells where they are."""
    sample = {"partition": 0, "offset": 7, "values": {"email": "ann@shop.example"}}
    rule = {"rule": "email is_in", "on_failure": "quarantine", "failed": 1, "samples": [sample]}
    shown = log_operation(lake, ANN, "backfill", "shop.orders", {"step": "load", "rules": [rule]})
    assert shown.as_json()["arguments"]["rules"] == [rule]
    [row] = lake.catalog.load_table(log_table(lake)).scan().to_arrow().to_pylist()
    assert "ann@shop" not in row["arguments"]
    logged = [{**rule, "samples": [{"partition": 0, "offset": 7, "values": {}}]}]
    assert json.loads(row["arguments"])["rules"] == logged


def test_the_plan_of_the_table_beside_it_is_told_whose_it_is(tmp_path: Path) -> None:
    """Given plans that wait of an append table and of its upsert table, when one is approved by the other's name, then the refusal names the table that it is of."""
    said = ORDERS.replace("{id: bigint}", "{id: bigint, note: string}")
    lake = lake_in(tmp_path, f"{said}schema_changes: {{add_column: review}}\nupsert: {{keys: [id]}}\n")
    lake.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    lake.catalog.create_table("shop.orders_current", pa.schema([("id", pa.int32())]))
    _append(lake, RECEIPT)
    current = upsert_tables(lake.configuration.contracts)["shop.orders_current"]
    both = {
        "shop.orders": foresee(lake, lake.configuration.contract("shop.orders")).plan,
        "shop.orders_current": foresee_upsert(lake, current).plan,
    }
    for of, plan in both.items():
        [other] = both.keys() - {of}
        contract = lake.configuration.any_table(other)
        with pytest.raises(Refused, match=f"is one of {of}, not of {other}") as refused:
            approve(lake, contract, plan, ANN)
        assert refused.value.next_step.startswith(f"tidemark approve {of} {plan} ")
        with pytest.raises(Refused, match=f"what waits: {both[other]} is"):
            approve(lake, contract, "neither", ANN)


def test_nobody_approves_by_the_name_of_the_contract(lake: Lake, contract: Contract) -> None:
    """Given a contract without approvers, when somebody declares to be `contract`, by which the history means what nobody had to approve, then that is refused."""
    with pytest.raises(Refused, match="needs no approval"):
        approve(lake, contract, "5f0c", replace(ANN, by="contract"))


def test_an_approval_that_is_logged_late_has_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an approval of somebody whom the host knows by another name that died before its row, when it is repeated, then the row has the declared and the authenticated name."""
    lake = lake_in(tmp_path, ORDERS)
    now = lake.configuration.contract("shop.orders")
    made = {OWNED: "orders", DECLARED_IN: contract_file(lake, now)}
    former = lake.catalog.create_table("shop.before", ROWS.schema, properties=made)
    former.append(ROWS, snapshot_properties=RECEIPT)
    plan = renaming(lake, now)
    assert plan is not None
    known = replace(ANN, authenticated="ann@corp")
    with dying_at(monkeypatch, "unrecorded"):
        approve(lake, now, plan.id, known)
    late = approve(lake, now, plan.id, replace(known, run_id="run-2"))
    assert (late.by, late.authenticated, late.run_id) == ("ann", "ann@corp", "run-1")
    assert [each["by"] for each in history(lake.state("shop.orders"))] == ["ann@corp"]


def _logged(lake: Lake) -> set[tuple[str, str]]:
    log = lake.catalog.load_table(log_table(lake)).scan().to_arrow().to_pylist()
    assert len(log) == len({(each["verb"], each["run_id"]) for each in log}), "each once"
    return {(each["verb"], each["by"]) for each in log}


def test_an_act_that_died_before_its_row_is_logged_before_another_takes_its_note(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given pauses and acceptances of a batch that each die before their row, when somebody does what replaces the note, then all are in the log."""
    _append(lake, RECEIPT)
    _set(lake, "shop.orders", {HELD_BATCH: "epoch 0,0:2-4"})
    bob = Signature("bob", "me too", "run-2")
    with dying_at(monkeypatch, "unrecorded"):
        pause(lake, contract, ANN)
    resume(lake, contract, bob)
    pause(lake, contract, bob)
    with dying_at(monkeypatch, "unrecorded"):
        resume(lake, contract, ANN)
    pause(lake, contract, replace(bob, run_id="run-3"))
    with dying_at(monkeypatch, "unrecorded"):
        accept(lake, contract, "quarantine-batch", ANN)
    accept(lake, contract, "quarantine-batch", bob)
    verbs = ("pause", "resume", "accept")
    assert _logged(lake) == {(verb, by) for verb in verbs for by in ("ann", "bob")}
    log = lake.catalog.load_table(log_table(lake)).scan("verb = 'accept'").to_arrow().to_pylist()
    assert [json.loads(row["arguments"])["ranges"] for row in log] == [{"0": [2, 4]}] * 2


@pytest.mark.parametrize("minutes", [0, 2])
def test_an_act_that_only_the_table_tells_of_is_logged_by_whoever_acts_next(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """Given a pause that died before its row, when its run can no longer be at work, then any act on the table logs it; a note by hand is none."""
    with dying_at(monkeypatch, "unrecorded"):
        pause(lake, contract, ANN)
    said = json.loads(lake.state("shop.orders").properties[PAUSED])
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    _set(lake, "shop.orders", {PAUSED: json.dumps({**said, "at": at.isoformat(timespec="seconds")})})
    _set(lake, "shop.orders", {RESUMED: "{by hand"})
    log_missing_acts(lake, "shop.orders")
    assert lake.catalog.table_exists(log_table(lake)) == bool(minutes)
    assert not minutes or _logged(lake) == {("pause", "ann")}


def _ago(minutes: int) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=minutes)


def _note(signature: Signature, at: datetime) -> str:
    return json.dumps({**json.loads(signature.as_note()), "at": at.isoformat()})


def test_a_resumption_that_failed_half_way_is_none(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a resumption whose note was written and whose table stayed paused, then nobody logs it; once it is repeated, that is logged."""

    def half(lake: Lake, table: str, properties: Mapping[str, str | None]) -> None:
        _set(lake, table, {name: text for name, text in properties.items() if text is not None})
        raise Outage("spark_down", table, "it went between two statements")

    pause(lake, contract, ANN)
    bob = Signature("bob", "me too", "run-2")
    with monkeypatch.context() as patch:
        patch.setattr(pausing, "set_properties", half)
        with pytest.raises(Outage):
            resume(lake, contract, bob)
    assert lake.state("shop.orders", ledger=False).paused
    _set(lake, "shop.orders", {RESUMED: _note(bob, _ago(2))})
    log_missing_acts(lake, "shop.orders")
    assert _logged(lake) == {("pause", "ann")}
    resume(lake, contract, replace(ANN, run_id="run-3"))
    assert _logged(lake) == {("pause", "ann"), ("resume", "ann")}


def test_an_act_that_is_logged_late_has_its_own_time(lake: Lake) -> None:
    """Given acts that only notes and a receipt tell of, when they are logged, then in their order, each at its own time, and snapshots are named where they are known."""
    act = act_of(replace(ANN, run_id="run-3"), "accept", None, what="record-gap")
    _append(lake, {**RECEIPT, ACT_PROPERTY: act})
    receipt = lake.catalog.load_table("shop.orders").current_snapshot()
    assert receipt is not None
    done = [("accept", Signature("bob", "me too", "run-2"), _ago(3)), ("pause", ANN, _ago(2))]
    notes = [_note(signature, at) for _, signature, at in done]
    _set(lake, "shop.orders", dict(zip((ACCEPTED, PAUSED), notes, strict=True)))
    log_missing_acts(lake, "shop.orders")
    log_missing_acceptance(lake, "shop.orders", "record-gap")
    log = lake.catalog.load_table(log_table(lake))
    of = [log.scan(snapshot_id=each.snapshot_id).to_arrow().to_pylist() for each in log.metadata.snapshots]
    rows = [next(row for row in now if row not in before) for before, now in zip([[], *of], of, strict=False)]
    told = [(row["verb"], row["at"], row["before_snapshot"], row["after_snapshot"]) for row in rows]
    late = ("accept", made_at(receipt), None, receipt.snapshot_id)
    assert told == [*((verb, at, None, None) for verb, _, at in done), late]


def test_what_others_have_logged_of_a_run_at_work_gives_way_to_its_own_words(lake: Lake) -> None:
    """Given a replay of several commits whose first is minutes old, when another act logs what that receipt says, then the replay's own row takes its place in the end, and nobody tells it again."""
    act = act_of(ANN, "replay", None, what="quarantine")
    _append(lake, {**RECEIPT, ACT_PROPERTY: act})
    for operation in _missing(lake, "shop.orders", timedelta(0)):
        record(lake, operation)
    done = {"what": "quarantine", "moved": 7, "commits": 2}
    log_operation(lake, ANN, "replay", "shop.orders", done, 1, 2)
    log_operation(lake, replace(ANN, run_id="run-2"), "replay", "shop.orders", done, 2, 2)
    for operation in _missing(lake, "shop.orders", timedelta(0)):
        record(lake, operation)
    log = lake.catalog.load_table(log_table(lake)).scan().to_arrow().to_pylist()
    told = sorted((row["run_id"], json.loads(row["arguments"]), row["after_snapshot"]) for row in log)
    arguments = {"dry_run": False, **done}
    assert told == [("run-1", arguments, 2), ("run-2", arguments, 2)]
