"""A table's state follows from facts alone; a service that is down is a state, not a failure."""

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tidemark.cli import status as status_module
from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.config.contract import Contract, Key, Value
from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import Outage
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.states import State
from tidemark.engine.access.table_state import ACCEPTED_BATCH, PAUSED, UPSERT_OF, TableState
from tidemark.engine.look.quarantined import CauseCount
from tidemark.engine.look.sightings import Look, Memory
from tidemark.engine.look.status import Facts, Hint, Status, judge
from tidemark.engine.look.tables import _topics, _with_begin, _with_reachability

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CONTRACT = Contract(topic="orders", table="shop.orders")
KEYS = [
    "table",
    "topic",
    "state",
    "lag_records",
    "lag_seconds",
    "stream_clock",
    "table_clock",
    "retention_headroom_seconds",
    "last_commit",
    "snapshot_id",
    "next",
    "end",
    "data_files",
    "delete_files",
    "rows",
    "quarantined",
    "remedy",
]


def topic(end: int = 100, start: int = 0, **changes: Any) -> Topic:
    known = Topic("orders", "c1", "t1", log_start={0: start}, end={0: end}, high_watermark={0: end})
    return replace(known, **changes)


def table(following: int = 100, **changes: Any) -> TableState:
    ledger = Ledger(cluster_id="c1", topic_id="t1", topic="orders", start={0: 0}, next={0: following})
    made = TableState(
        "shop.orders",
        exists=True,
        head=7,
        ledger=ledger,
        rows=following,
        committed_at=NOW - timedelta(hours=1),
    )
    return replace(made, **changes)


def facts(**changes: Any) -> Facts:
    return replace(Facts(CONTRACT, table=table(), topic=topic(), quarantined=0), **changes)


def status(**changes: Any) -> Status:
    return judge(facts(**changes), poll=timedelta(seconds=5), now=NOW)


def seen(seconds_ago: float, end: int) -> Look:
    at = NOW - timedelta(seconds=seconds_ago)
    return Look(at, at, {0: end})


def test_the_json_has_exactly_the_keys_of_the_contract() -> None:
    assert list(status().as_json()) == KEYS


def test_a_topic_without_an_id_is_told_apart_by_offsets_alone_and_status_says_so(capsys: Any) -> None:
    plain = table()
    nameless = replace(plain, ledger=plain.ledger.model_copy(update={"topic_id": None}))
    unloaded = TableState("shop.orders", exists=False)
    for weak in ({"topic": topic(topic_id=None)}, {"table": nameless}, {"table": nameless, "topic": None}):
        assert status(**weak).as_json()["identity"] == "offsets"
    for known in ({}, {"topic": None}, {"table": unloaded, "topic": topic(topic_id=None)}):
        assert "identity" not in status(**known).as_json()
    status_module._show([status(topic=topic(topic_id=None)), status()], fresh=1, of=2)
    assert "a topic made anew is told by its offsets alone: shop.orders\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "fresh"),
        ({"topic": topic(150)}, "lagging"),
        ({"table": None, "table_fault": "catalog_down"}, "catalog_down"),
        ({"topic": None, "topic_fault": "kafka_down"}, "kafka_down"),
        ({"topic": None, "topic_fault": "permission_denied"}, "permission_denied"),
        ({"topic": None}, "topic_missing"),
        ({"table_fault": "ledger_missing"}, "ledger_missing"),
        ({"table": table(properties={PAUSED: "{}"}), "topic": topic(150)}, "paused"),
        ({"topic": topic(topic_id="t2")}, "topic_recreated"),
        ({"topic": topic(cluster_id="c2")}, "cluster_changed"),
        ({"topic": topic(50)}, "offsets_regressed"),
        ({"topic": topic(200, start=150)}, "offsets_expired"),
        ({"topic": Topic("orders", "c1", "t1", {}, {}, {})}, "partitions_shrunk"),
        ({"table": TableState("shop.orders", exists=False)}, "lagging"),
        ({"table": TableState("shop.orders", exists=False), "hint": Hint(loaded=True)}, "table_missing"),
        (
            {
                "table": TableState("shop.orders", exists=False),
                "hint": Hint(loaded=True),
                "gone": "schema_review",
            },
            "schema_review",
        ),
        ({"table": TableState("shop.orders", exists=True)}, "lagging"),
        ({"table": TableState("shop.orders", exists=True), "hint": Hint(loaded=True)}, "ledger_missing"),
        (
            {
                "table": TableState("shop.orders", exists=True, properties={UPSERT_OF: "shop.log"}),
                "hint": Hint(loaded=True),
            },
            "table_incompatible",
        ),
        ({"table": TableState("shop.orders", exists=False), "topic": topic(0)}, "fresh"),
        ({"topic": topic(150), "unreachable": "spark_down"}, "spark_down"),
        ({"unreachable": "spark_down"}, "fresh"),
    ],
)
def test_the_state_says_what_table_topic_and_outages_show(changes: dict[str, Any], state: State) -> None:
    assert status(**changes).state == state


@pytest.mark.parametrize("other", [{"topic_id": "t2"}, {"cluster_id": "c2"}])
def test_of_another_topic_everything_waits(other: dict[str, str]) -> None:
    """Its offsets are no continuation of those that were read, be they greater or less."""
    found = status(topic=topic(60, **other))
    assert (found.lag_records, found.next) == (60, {0: 100})


def test_every_state_but_fresh_comes_with_a_remedy() -> None:
    assert status(topic=None).remedy.startswith("create the topic, or mend `topic` in the contract")
    assert status(topic=topic(150)).remedy == "tidemark run shop.orders"
    assert status().remedy == ""
    assert "empty it first" in status(table_fault="ledger_missing").remedy, "else each record is there twice"


def test_what_cannot_be_known_is_null() -> None:
    down = status(topic=None, topic_fault="kafka_down").as_json()
    assert (down["lag_records"], down["lag_seconds"], down["rows"]) == (None, None, 100)
    blind = status(table=None, table_fault="catalog_down").as_json()
    assert (blind["rows"], blind["snapshot_id"], blind["lag_records"], blind["end"]) == (
        None,
        None,
        None,
        {"0": 100},
    )


def test_the_stream_is_as_far_as_the_table_at_least() -> None:
    """Given a record dated 2099, which hides all others of its partition from Kafka, then the stream's clock is the newest time known; that of another topic is not this one's."""
    plain = table()
    read = replace(plain, ledger=plain.ledger.model_copy(update={"max_timestamp": NOW}))
    for told in (None, NOW - timedelta(hours=1)):
        assert status(table=read, stream_clock=told).stream_clock == NOW
        assert status(table=read, stream_clock=told, topic=topic(topic_id="t2")).stream_clock == told
    ahead = NOW + timedelta(seconds=5)
    assert status(table=read, stream_clock=ahead).stream_clock == ahead
    assert status(table=read, topic=None, topic_fault="kafka_down").stream_clock is None


@pytest.mark.parametrize(("value", "key"), [("registry", "raw"), ("json", "registry"), ("json", "string")])
def test_a_registry_that_is_down_concerns_tables_whose_values_or_keys_need_it(value: str, key: str) -> None:
    """Given a registry where nobody listens, then records wait for it that could not be decoded without."""
    with socket.create_server(("127.0.0.1", 0)) as spark:
        platform = Platform(
            catalog={"name": "lake", "type": "sql", "uri": "sqlite://", "warehouse": "file:///nowhere"},
            spark={"remote": f"sc://127.0.0.1:{spark.getsockname()[1]}"},
            schema_registry={"main": {"url": "http://127.0.0.1:1"}},
        )
        contract = CONTRACT.model_copy(update={"value": Value(format=value), "key": Key(format=key)})
        waits, level = _with_reachability(
            platform, [facts(contract=contract, topic=topic(150)), facts(contract=contract)]
        )
    assert waits.unreachable == ("registry_down" if "registry" in {value, key} else None)
    assert level.unreachable is None


def test_lag_is_the_age_of_the_oldest_unpublished_offset_by_our_clock() -> None:
    memory = Memory((seen(60, 100), seen(40, 120), seen(10, 150)))
    found = status(topic=topic(150), memory=memory)
    assert (found.lag_records, found.lag_seconds, found.state) == (50, 40, "fresh")


def test_lag_within_the_target_is_fresh_only_when_it_is_known_to_be() -> None:
    """A first look cannot tell records of a moment ago from records of last week."""
    assert status(topic=topic(150), memory=Memory((seen(0, 150),))).state == "lagging"
    assert status(topic=topic(150), memory=Memory((seen(600, 100), seen(0, 150)))).state == "lagging"
    assert status(topic=topic(150), memory=Memory((seen(20, 100), seen(0, 150)))).state == "fresh"
    assert status(topic=topic(150), memory=Memory((seen(99, 100), seen(70, 150)))).state == "lagging"


def test_the_sensors_sightings_count() -> None:
    hint = Hint(sightings=(Sighting(NOW - timedelta(seconds=30), {0: 150}),))
    found = status(topic=topic(150), hint=hint)
    assert (found.lag_seconds, found.state) == (30, "fresh")


def test_what_a_sensor_saw_of_the_topic_before_counts_for_nothing() -> None:
    """Given a topic that was made anew and a sensor that is off since, then the age of what waits is not that of its last sighting, nor was anything watched by it."""
    before = Sighting(NOW - timedelta(days=30), {0: 1_000_050})
    now = Sighting(NOW - timedelta(seconds=2), {0: 150})
    found = status(topic=topic(150), hint=Hint(sightings=(before, now)))
    assert (found.lag_seconds, found.state) == (2, "fresh")
    assert status(topic=topic(150), hint=Hint(sightings=(before,))).state == "lagging"


def test_a_stop_state_that_only_a_run_can_see_comes_from_the_last_run() -> None:
    hint = Hint(stopped="schema_unsupported", at=NOW - timedelta(minutes=5))
    assert status(topic=topic(150), hint=hint).state == "schema_unsupported"


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": topic(100)},
        {"table": table(committed_at=NOW)},
        {"hint": Hint(stopped="kafka_down", at=NOW)},
        {
            "hint": Hint(stopped="quarantine_flood", at=NOW),
            "table": table(properties={ACCEPTED_BATCH: "epoch 0,0:100-150"}),
        },
        {
            "hint": Hint(stopped="quality_blocked", at=NOW),
            "table": table(properties={ACCEPTED_BATCH: "epoch 0,0:100-150"}),
        },
    ],
    ids=[
        "nothing waits",
        "published since",
        "an outage is asked for, not remembered",
        "a flood was accepted since",
        "a blocked batch was accepted since",
    ],
)
def test_the_last_run_is_not_believed_for_ever(changes: dict[str, Any]) -> None:
    known = {"topic": topic(150), "hint": Hint(stopped="misconfigured", at=NOW - timedelta(minutes=5))}
    assert status(**{**known, **changes}).state in {"fresh", "lagging"}


def test_a_transaction_that_stays_open_is_a_state() -> None:
    held = topic(high_watermark={0: 120})
    assert status(topic=held, memory=Memory(held=NOW - timedelta(seconds=20))).state == "fresh"
    assert status(topic=held, memory=Memory(held=NOW - timedelta(minutes=3))).state == "transaction_open"


def test_worst_first() -> None:
    found = [
        status(),
        status(topic=topic(150)),
        status(topic=None),
        status(topic=None, topic_fault="kafka_down"),
        status(table=table(properties={PAUSED: "{}"})),
    ]
    states = [each.state for each in sorted(found, key=lambda each: each.gravity)]
    assert states == ["topic_missing", "kafka_down", "lagging", "paused", "fresh"]


def test_a_first_load_from_latest_has_nothing_to_catch_up_with() -> None:
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": "latest"})  # type: ignore[arg-type]
    new = facts(contract=contract, table=TableState("shop.orders", exists=False))
    assert judge(new, poll=timedelta(seconds=5), now=NOW).lag_records == 0


def test_a_first_load_from_offsets_has_what_follows_them_to_catch_up_with() -> None:
    start = {"offsets": {0: 90}}
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": start})  # type: ignore[arg-type]
    new = facts(contract=contract, table=TableState("shop.orders", exists=False))
    assert judge(new, poll=timedelta(seconds=5), now=NOW).lag_records == 10


@pytest.mark.parametrize("start", ["2026-11-20T00:00:00Z", {"consumer_group": "old"}])
def test_of_a_first_load_from_a_time_or_a_group_waits_what_follows_there(start: Any) -> None:
    """Given a table that is yet to be loaded, then Kafka is asked where it begins; of one that is loaded it is not."""
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": start})  # type: ignore[arg-type]
    admin = SimpleNamespace(offsets_at=lambda *_: {0: 60}, group_offsets=lambda *_: {0: 60})
    lake: Any = SimpleNamespace(kafka=lambda _: admin)
    new = facts(contract=contract, table=TableState("shop.orders", exists=False))
    found = judge(_with_begin(lake, new), poll=timedelta(seconds=5), now=NOW)
    assert (found.state, found.lag_records) == ("lagging", 40)
    loaded = facts(contract=contract)
    assert _with_begin(SimpleNamespace(), loaded) is loaded  # type: ignore[arg-type]


def test_a_first_load_whose_group_has_committed_nothing_is_misconfigured_and_nothing_is_known_to_wait() -> (
    None
):
    start = {"consumer_group": "old"}
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": start})  # type: ignore[arg-type]
    lake: Any = SimpleNamespace(kafka=lambda _: SimpleNamespace(group_offsets=lambda *_: {}))
    new = facts(contract=contract, table=TableState("shop.orders", exists=False))
    found = judge(_with_begin(lake, new), poll=timedelta(seconds=5), now=NOW)
    assert (found.state, found.lag_records) == ("misconfigured", None)


@pytest.mark.parametrize(
    ("offsets", "state"),
    [({0: 100}, "fresh"), ({0: 101}, "misconfigured"), ({7: 0}, "misconfigured"), ({0: 0}, "lagging")],
)
def test_a_first_load_from_offsets_that_kafka_does_not_hold_is_not_fresh(offsets: Any, state: State) -> None:
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": {"offsets": offsets}})  # type: ignore[arg-type]
    new = facts(contract=contract, table=TableState("shop.orders", exists=False))
    assert judge(new, poll=timedelta(seconds=5), now=NOW).state == state
    loaded = facts(contract=contract)
    assert judge(loaded, poll=timedelta(seconds=5), now=NOW).state == "fresh", "the ledger counts then"


@pytest.mark.parametrize("exists", [False, True])
def test_a_first_load_that_was_stopped_is_not_fresh_though_nothing_waits(exists: bool) -> None:
    contract = Contract(topic="orders", table="shop.orders", ingest={"start": "latest"})  # type: ignore[arg-type]
    for step, remedy in (("", "declare the types that it has"), ("drop it, then run", "drop it, then run")):
        hint = Hint(stopped="table_incompatible", at=NOW, remedy=step)
        new = facts(contract=contract, table=TableState("shop.orders", exists=exists), hint=hint)
        found = judge(new, poll=timedelta(seconds=5), now=NOW)
        assert (found.state, found.remedy[: len(remedy)]) == ("table_incompatible", remedy)
    hint = Hint(stopped="quality_blocked", at=NOW, remedy="drop it, then run")
    paused = judge(
        facts(hint=hint, table=TableState("shop.orders", exists=True, properties={"tidemark.paused": "x"})),
        poll=timedelta(seconds=5),
        now=NOW,
    )
    assert "drop" not in paused.remedy, "that is the step of another state"
    assert status_module._needs_hint(new)


@pytest.mark.parametrize(
    ("end", "state"),
    [(0, "offsets_regressed"), (99, "offsets_regressed"), (100, "fresh"), (101, "lagging"), (150, "lagging")],
)
def test_the_state_follows_from_where_the_topic_ends(end: int, state: str) -> None:
    assert status(topic=topic(end)).state == state


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_names_and_next_commands_can_be_read_on_a_terminal_of_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a narrow terminal, when the status is shown, then names are whole, and the next command is in one piece or beside its table in readable lines."""
    monkeypatch.setattr(status_module, "console", lambda: Console(width=width, highlight=False))
    long = replace(status(topic=topic(999_999)), table="warehouse.orders_of_the_shop_in_2026")
    status_module._show([long, status(topic=topic(200, start=150))], fresh=0, of=2)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("warehouse.orders_of_the_shop_in_2026 ") for line in lines)
    assert max(map(len, lines)) <= max(width, 75)
    whole = "shop.orders: tidemark accept shop.orders --record-gap --reason …"
    beside = any(line.startswith("shop.orders ") and " tidemark accept shop.orders" in line for line in lines)
    assert beside or any(line == whole for line in lines)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_nothing_of_a_cause_is_left_out_on_a_terminal_of_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a narrow terminal, when the quarantine is shown, then what has no room goes on in the next line."""
    monkeypatch.setattr(status_module, "console", lambda: Console(width=width, highlight=False))
    status_module._show_causes(
        [CauseCount("pay.payments", "quality:is_positive", 7, 0, NOW, NOW, schema_ids={100_031, 100_032})]
    )
    said = capsys.readouterr().out
    heading, *lines = [line for line in said.splitlines() if line.strip()]
    whole = "".join(sorted("".join(line.replace(" ", "") for line in (heading, *lines))))
    wanted = "table cause waiting resolved first last schema ids pay.payments quality:is_positive 7 0"
    shown = f"{wanted} 2026-11-20 12:00Z 2026-11-20 12:00Z 100031, 100032"
    assert whole == "".join(sorted(shown.replace(" ", "")))


def test_clusters_are_asked_side_by_side() -> None:
    """Given two clusters that do not answer, when tables of both are looked at, then the time of one is enough."""
    meeting = Barrier(2, timeout=10)

    def describe_each(_topics: object) -> object:
        meeting.wait()
        raise Outage("kafka_down", "-", "no answer")

    lake: Any = SimpleNamespace(kafka=lambda _: SimpleNamespace(describe_each=describe_each))
    both = [CONTRACT, CONTRACT.model_copy(update={"cluster": "other"})]
    assert _topics(lake, both) == ({}, {("main", "orders"): "kafka_down", ("other", "orders"): "kafka_down"})
