"""Rules of upsert tables in Dagster: assets downstream of their append tables, merged apart from ingest, when it is time."""

import json
import socket
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster import AssetKey
from dagster._core.storage.tags import SCHEDULE_NAME_TAG
from pyiceberg.catalog.sql import SqlCatalog

import resources.lake as configuration_module
from assets.names import LANE_TAG, pool_filter, pool_of, schema_key
from assets.runs.report import result
from assets.runs.schema import run_evolved
from orchestration.definitions import build_defs
from resources.lake import configuration_of
from sensors import merge_tick
from sensors import tick as ticks
from sensors.cursor import CATALOG, Cache, Entry, dump, parse
from tidemark.domain.cadence.reading import READS
from tidemark.domain.cadence.request import Trouble
from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, Field, Struct
from tidemark.domain.config.contract import Contract, Upsert
from tidemark.domain.config.platform import Lane, Spark
from tidemark.domain.config.upsert import SOFT_COLUMN, upsert_table_of, upsert_tables
from tidemark.domain.errors import Outage
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger
from tidemark.domain.ledger.merge_plan import AppendHistory, AppendReceipt
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.table_state import TableState
from tidemark.engine.config.follow import Followed
from tidemark.engine.look import upserts as upserts_module
from tidemark.engine.look.status import Hint
from tidemark.engine.merge.pair import Pair
from tidemark.engine.schema.history import HISTORY
from tidemark.review.collect import reviews

PAYMENTS = (
    "topic: payments\ntable: shop.payments\nfreshness: {warn: 2m, fail: 10m}\n"
    "upsert: {keys: [id], target_lag: 2m, partition_by: [id]}\n"
)
CURRENT_TABLE = "shop.payments_current"
CURRENT = AssetKey(CURRENT_TABLE.split("."))


@pytest.fixture
def upserting(where):
    """The scratch configuration with one more contract."""
    (where.contracts_dir / "payments.yaml").write_text(PAYMENTS)
    configuration_module._configuration.cache_clear()
    return where


@pytest.fixture
def with_upsert(upserting, lake, resource):
    return build_defs({"lake": resource}, upserting)


@pytest.fixture
def ticking(with_upsert, lake, resource, instance):
    def tick(cursor=None):
        with dg.build_sensor_context(
            instance=instance, definitions=with_upsert, resources={"lake": resource}, cursor=cursor
        ) as context:
            return with_upsert.resolve_sensor_def("upsert_lag").evaluate_tick(context)

    return tick


def test_an_upsert_table_is_an_asset_downstream_of_its_append_table(with_upsert):
    spec = next(s for s in with_upsert.resolve_all_asset_specs() if s.key == CURRENT)
    assert [dep.asset_key for dep in spec.deps] == [AssetKey(["shop", "payments"])]
    assert spec.group_name == "shop"
    assert spec.metadata["target_lag"] == "2m"
    assert spec.tags["tidemark/role"] == "data"
    job = with_upsert.resolve_job_def("merge")
    assert set(job.asset_layer.selected_asset_keys) == {CURRENT}
    assert CURRENT not in with_upsert.resolve_job_def("ingest").asset_layer.selected_asset_keys
    schedule = with_upsert.resolve_schedule_def("merge")
    assert (schedule.job_name, schedule.cron_schedule) == ("merge", "0 * * * *")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


@pytest.fixture
def two_lanes(upserting, lake, resource):
    """Definitions with an upsert table in each of two lanes."""
    (upserting.contracts_dir / "slow.yaml").write_text(
        PAYMENTS.replace("payments", "refunds") + "lane: slow\n"
    )
    configuration_module._configuration.cache_clear()
    return build_defs({"lake": resource}, upserting)


def test_the_schedule_asks_for_a_run_of_each_lane(two_lanes, instance):
    """Given upsert tables of two lanes, when the hour comes, then no run waits for the pool of another lane or merges it."""
    defs = two_lanes
    with dg.build_schedule_context(instance=instance) as context:
        requests = defs.resolve_schedule_def("merge").evaluate_tick(context).run_requests
    asked = {each.tags["tidemark/lane"]: each.asset_selection for each in requests}
    refunds = AssetKey(["shop", "refunds_current"])
    assert asked == {"default_upsert": [CURRENT], "slow_upsert": [refunds]}
    assert len({each.run_key for each in requests}) == 2, (
        "else the second is taken for the first, asked for again"
    )
    for lane, selected in asked.items():
        job = defs.resolve_job_def("merge").get_subset(asset_selection=set(selected))
        run = instance.create_run_for_job(job, asset_selection=frozenset(selected))
        needed = {each: dg.RunsFilter([run.run_id], tags=pool_filter(pool_of(each))) for each in asked}
        assert [each for each, found in needed.items() if instance.get_runs(found)] == [lane]


def test_the_schedule_asks_for_no_second_run_of_a_lane_while_one_waits(two_lanes, instance, queued):
    def asked():
        with dg.build_schedule_context(instance=instance) as context:
            requests = two_lanes.resolve_schedule_def("merge").evaluate_tick(context).run_requests
        return [each.tags[LANE_TAG] for each in requests]

    job = two_lanes.resolve_job_def("merge")
    queued(job, **{SCHEDULE_NAME_TAG: "merge", LANE_TAG: "default_upsert"})
    assert asked() == ["slow_upsert"]
    queued(job, **{SCHEDULE_NAME_TAG: "merge", LANE_TAG: "slow_upsert"})
    assert asked() == []


def test_the_schedule_asks_for_no_table_whose_contract_is_gone(two_lanes, instance, upserting):
    """Given contracts that were removed or broken after the definitions were loaded, when the hour comes, then no run is asked for that would die of it, and the others are."""

    def asked():
        with dg.build_schedule_context(instance=instance) as context:
            found = two_lanes.resolve_schedule_def("merge").evaluate_tick(context)
        return [each.asset_selection for each in found.run_requests], found.skip_message or ""

    file = upserting.contracts_dir / "payments.yaml"
    file.unlink()
    refunds = AssetKey(["shop", "refunds_current"])
    assert asked() == ([[refunds]], "")
    file.write_text(PAYMENTS + "lane: slow\n")
    assert asked() == ([[refunds]], ""), "the pool that a run would wait for is not this lane's"
    file.write_text("tabel: x\n")
    assert "did you mean table" in asked()[1]
    file.unlink()
    (upserting.contracts_dir / "slow.yaml").unlink()
    assert "reload the definitions" in asked()[1]


def test_a_lane_may_have_any_name_that_is_not_refused(where, lake, resource):
    """Given lanes named after what steps say of upsert tables, when the definitions are made, then they load."""
    names = ("of_upserts", "upserts", "upsert_freshness")
    lanes = ", ".join(f"{name}: {{}}" for name in names)
    text = where.platform_file.read_text().replace("lanes: {", f"lanes: {{{lanes}, ")
    where.platform_file.write_text(text)
    for name in names:
        written = f"topic: {name}\ntable: shop.{name}\nlane: {name}\nupsert: [id]\n"
        (where.contracts_dir / f"{name}.yaml").write_text(written)
    configuration_module._configuration.cache_clear()
    defs = build_defs({"lake": resource}, where)
    dg.Definitions.validate_loadable(defs)
    assert {f"upsert_lag_{name}" for name in names} <= {sensor.name for sensor in defs.sensors}


def test_without_upsert_there_is_neither_job_nor_sensor(defs):
    assert "merge" not in {job.name for job in defs.jobs}
    assert not [s for s in defs.sensors if s.name.startswith("upsert")]


def pair(where, *, merged, end, waited, kind="append"):
    current = upsert_tables(configuration_of(where).contracts)["shop.payments_current"]
    touched = {0: [(1, 2)]} if kind == "replay" else {}
    ledger = Ledger(
        cluster_id="c", topic_id="t", topic="payments", kind=kind, next=end or {}, reloaded=touched
    )
    chain = (2,) if kind == "rollback" else (2, 1)
    history = AppendHistory("u", 2, chain, (AppendReceipt(2, datetime.now(UTC) - waited, ledger),))
    known = (
        MergeLedger(append_table="shop.payments", append_uuid="u", append_snapshot=1, next=merged)
        if merged
        else None
    )
    state = TableState(current.contract.table, exists=bool(merged), head=7, receipt=7, merged=known)
    return Pair(current, history if end else None, state, Struct(()))


@pytest.mark.parametrize(
    ("merged", "end", "waited", "due"),
    [
        ({0: 5}, {0: 9}, timedelta(minutes=2), True),
        ({0: 5}, {0: 9}, timedelta(seconds=20), False),
        ({0: 9}, {0: 9}, timedelta(hours=1), False),
        (None, {0: 9}, timedelta(0), True),
        (None, None, timedelta(0), False),
    ],
)
def test_the_sensor_asks_when_rows_have_waited_for_the_target_lag(
    ticking, upserting, monkeypatch, merged, end, waited, due
):
    """Given append and merge ledgers, when the sensor ticks, then it asks as target_lag says, without any Spark."""
    found = pair(upserting, merged=merged, end=end, waited=waited)
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {"shop.payments_current": found})
    result = ticking()
    assert [r.asset_selection for r in result.run_requests or []] == ([[CURRENT]] if due else [])


@pytest.mark.parametrize("kind", ["replay", "rollback"])
def test_a_replay_or_a_rollback_that_leaves_the_offsets_is_merged(ticking, upserting, monkeypatch, kind):
    """Given equal offsets, when what was merged was replayed or taken back, then a merge is asked for and status says so."""
    found = pair(upserting, merged={0: 9}, end={0: 9}, waited=timedelta(minutes=5), kind=kind)
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {"shop.payments_current": found})
    assert [request.asset_selection for request in ticking().run_requests] == [[CURRENT]]
    monkeypatch.setattr(upserts_module, "read_pair", lambda *_: found)
    platform = configuration_of(upserting).platform
    with socket.create_server(("127.0.0.1", 0)) as spark:
        remote = f"sc://127.0.0.1:{spark.getsockname()[1]}"
        lake = SimpleNamespace(platform=platform.model_copy(update={"spark": Spark(remote=remote)}))
        (status,) = upserts_module.upsert_statuses(lake, [found.current])
    assert (status.state, status.lag_records) == ("lagging", 0)
    (down,) = upserts_module.upsert_statuses(lake, [found.current])
    assert (down.state, down.remedy.partition(" (")[0]) == ("spark_down", "tidemark services up")
    assert 299 < status.lag_seconds < 400


@pytest.mark.parametrize(("append", "told"), [("schema_review", "schema_review"), ("fresh", "fresh")])
def test_a_table_that_is_not_there_stands_as_its_append_table(upserting, monkeypatch, append, told):
    """Given neither table, under a new name say, when status is asked, then the upsert table is no fresher than the other."""
    current = upsert_tables(configuration_of(upserting).contracts)[CURRENT_TABLE]
    found = Pair(current, None, TableState(CURRENT_TABLE, exists=False), Struct(()))
    monkeypatch.setattr(upserts_module, "read_pair", lambda *_: found)
    lake = SimpleNamespace(platform=configuration_of(upserting).platform)

    def look(contracts):
        return [SimpleNamespace(table=each.table, state=append, remedy="its own") for each in contracts]

    (status,) = upserts_module.upsert_statuses(lake, [current], look=look)
    assert (status.state, status.snapshot_id, status.remedy) == (told, None, "its own")


def test_a_table_that_is_there_does_not_stand_as_its_append_table(upserting, monkeypatch):
    """Given a table that is there and one that is not, when look tells of both append tables, then the first has a state of its own."""
    found = pair(upserting, merged={0: 9}, end={0: 9}, waited=timedelta(0))
    append = found.current.append
    other = upsert_table_of(
        append.model_copy(
            update={"table": "shop.other", "upsert": Upsert(keys=["id"], table="shop.other_current")}
        )
    )
    unmade = Pair(other, None, TableState("shop.other_current", exists=False), Struct(()))
    monkeypatch.setattr(upserts_module, "read_pair", lambda _, each: unmade if each is other else found)
    lake = SimpleNamespace(platform=configuration_of(upserting).platform)

    def look(_):
        return [
            SimpleNamespace(table=each, state="misconfigured", remedy="")
            for each in (append.table, "shop.other")
        ]

    made, not_there = upserts_module.upsert_statuses(lake, [found.current, other], look=look)
    assert (made.state, not_there.state) == ("fresh", "misconfigured")


@pytest.mark.parametrize("made", [True, False])
def test_a_review_says_of_an_upsert_table_what_its_status_says(upserting, lake, monkeypatch, tmp_path, made):
    """Given a merge that stopped, or a table that its append table keeps from being made, when the review is made, then it says so."""
    found = pair(upserting, merged={0: 5}, end={0: 9}, waited=timedelta(hours=1))
    if not made:
        found = Pair(found.current, None, TableState(CURRENT_TABLE, exists=False), Struct(()))
    monkeypatch.setattr(upserts_module, "read_pair", lambda *_: found)
    lake.catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    lake.down = {"main": True}

    def hints(tables):
        return {CURRENT_TABLE: Hint(stopped="schema_review")} if CURRENT_TABLE in tables else {}

    (review,) = reviews(lake, [found.current.append], upserting.home, hints)
    assert review.current.status.state == ("schema_review" if made else review.status.state)
    assert review.status.state == "kafka_down"


def test_an_upsert_table_that_is_late_turns_red_by_itself_and_green_again(
    with_upsert, upserting, lake, resource, instance, monkeypatch
):
    """Given rows that nothing merges, when the sensor ticks, then the check of the table says since when, once for each grade."""
    cursor, told = None, []
    for waited in (30, 300, 310, 900, 0):
        end = {0: 9} if waited else {0: 5}
        found = pair(upserting, merged={0: 5}, end=end, waited=timedelta(seconds=waited))
        monkeypatch.setattr(
            merge_tick, "read_pairs", lambda *_, found=found: {"shop.payments_current": found}
        )
        with dg.build_sensor_context(
            instance=instance, definitions=with_upsert, resources={"lake": resource}, cursor=cursor
        ) as context:
            result = with_upsert.resolve_sensor_def("upsert_lag").evaluate_tick(context)
        cursor = result.cursor
        checks = [e for e in result.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
        told += [(e.passed, e.severity.value, e.asset_key) for e in checks]
    assert told == [
        (True, "ERROR", CURRENT),
        (False, "WARN", CURRENT),
        (False, "ERROR", CURRENT),
        (True, "ERROR", CURRENT),
    ]
    spec = with_upsert.resolve_asset_graph().get(CURRENT)
    assert spec.metadata["topic"] == "payments", "Kafka's, not the append table"
    check = with_upsert.resolve_asset_graph().get(dg.AssetCheckKey(CURRENT, "freshness"))
    assert check.description == (
        "Age of the oldest commit to `shop.payments` that is not merged: warns beyond 4m, fails beyond 10m. "
        "Where all are merged it is fresh."
    )


@pytest.fixture
def looked(with_upsert, upserting, lake, resource, instance, monkeypatch):
    """Whether the next tick, some seconds from now, looks at the tables; the cursor is kept from tick to tick."""
    kept: dict[str, str | None] = {"cursor": None}

    def tick(found, later: float = 0.0) -> bool:
        class Later(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(seconds=later)

        asked: list[str] = []
        monkeypatch.setattr(ticks, "datetime", Later)
        monkeypatch.setattr(
            merge_tick,
            "read_pairs",
            lambda _, each, *_more: asked.extend(c.table for c in each) or {CURRENT_TABLE: found},
        )
        with dg.build_sensor_context(
            instance=instance, definitions=with_upsert, resources={"lake": resource}, cursor=kept["cursor"]
        ) as context:
            result = with_upsert.resolve_sensor_def("upsert_lag").evaluate_tick(context)
        kept["cursor"] = result.cursor
        assert asked or result.skip_message == "1 caught up, and nothing has happened since"
        return bool(asked)

    return tick


@pytest.fixture
def run_of(with_upsert, instance):
    """A run of one table as Dagster's records would hold it, its pools computed from the real job."""

    def make(table: str, status: dg.DagsterRunStatus) -> None:
        chosen = {AssetKey(table.split("."))}
        run = instance.create_run_for_job(
            with_upsert.resolve_job_def("ingest").get_subset(asset_selection=chosen),
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset(chosen),
        )
        if status is dg.DagsterRunStatus.SUCCESS:
            ended = dg.DagsterEvent(dg.DagsterEventType.PIPELINE_SUCCESS.value, "ingest")
            instance.report_dagster_event(ended, run.run_id)

    return make


def test_a_table_that_has_caught_up_is_looked_at_again_after_a_minute(looked, upserting):
    level = pair(upserting, merged={0: 9}, end={0: 9}, waited=timedelta(0))
    assert [looked(level, later) for later in (0, 5, 50, 61, 66)] == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("merged", "end", "kind"),
    [({0: 5}, {0: 9}, "append"), ({0: 9}, {0: 9}, "replay"), (None, {0: 9}, "append")],
)
def test_one_that_is_behind_is_looked_at_in_every_tick(looked, upserting, merged, end, kind):
    found = pair(upserting, merged=merged, end=end, waited=timedelta(seconds=5), kind=kind)
    assert [looked(found, later) for later in (0, 5, 10)] == [True, True, True]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS])
def test_a_run_that_may_have_written_to_the_append_table_is_followed_by_a_look(
    looked, upserting, run_of, status
):
    level = pair(upserting, merged={0: 9}, end={0: 9}, waited=timedelta(0))
    assert [looked(level), looked(level, 1)] == [True, False]
    run_of("shop.orders", status)
    assert not looked(level, 2)
    run_of("shop.payments", status)
    assert looked(level, 3)


def test_a_catalog_that_is_down_is_a_reason_to_skip_and_turns_freshness_red_in_time(ticking, monkeypatch):
    down = Outage("catalog_down", "shop.payments_current", "database is locked")
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {"shop.payments_current": down})
    result = ticking()
    assert not result.run_requests
    assert "catalog_down" in result.skip_message
    assert not result.asset_events
    long_down = Cache(down={CATALOG: datetime.now(UTC) - timedelta(hours=1)})
    (late,) = ticking(dump(long_down)).asset_events
    assert (late.asset_key, late.check_name, late.passed) == (CURRENT, "freshness", False)


def test_an_upsert_table_that_waits_for_its_first_rows_is_not_late(ticking, upserting, monkeypatch):
    """Given an append table that is yet to be loaded, when the catalog has failed and is back, or is down for long, then freshness stays as it is."""
    since = datetime.now(UTC) - timedelta(hours=1)
    answers = pair(upserting, merged=None, end=None, waited=timedelta(0))
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {CURRENT_TABLE: answers})
    back = ticking(dump(Cache({CURRENT_TABLE: Entry(fault="catalog_down", lost=since)})))
    assert not back.asset_events
    known = parse(back.cursor)
    assert (known.entry(CURRENT_TABLE).lost, known.entry(CURRENT_TABLE).fault) == (None, None)
    known.down[CATALOG] = since
    answers = Outage("catalog_down", CURRENT_TABLE, "database is locked")
    assert not ticking(dump(known)).asset_events


def test_an_upsert_table_that_the_clients_do_not_know_is_passed_over(ticking, upserting, lake):
    """Given clients that were made when a contract was gone, while the definitions still have its upsert table, then the tick leaves it."""
    (upserting.contracts_dir / "payments.yaml").unlink()
    lake.configuration = Followed(upserting).now()
    assert ticking().skip_message == "0 of 0 caught up"


@pytest.fixture
def very_many(instance, monkeypatch):
    """A tick over 100 upsert tables with an empty or given cursor; `asked` are the tables that the catalog was asked for."""
    asked: list[str] = []
    written = (
        {"topic": name, "table": f"shop.{name}", "upsert": {"table": f"shop.{name}_now", "keys": ["id"]}}
        for name in (f"t{n:02}" for n in range(100))
    )
    contracts = [Contract.model_validate(each) for each in written]
    lake = SimpleNamespace(configuration=SimpleNamespace(contracts=contracts))
    tables = [each.contract for each in upsert_tables(contracts).values()]

    def tick(cache: Cache, answer, among: int = 100):
        def read(_lake, current):
            asked.append(current.contract.table)
            return answer(current)

        monkeypatch.setattr(merge_tick, "read_pair", read)
        made = merge_tick.MergeTick(lake, instance, "default_upsert", Lane(), tables[:among], cache)
        return made, made.decide()

    return tick, asked


def test_very_many_upsert_tables_are_looked_at_in_turn(very_many):
    """Given 100 tables that nothing is known of, or that all lag, then no tick asks for more than it has time for, and none is left out for long."""
    tick, asked = very_many
    cache = Cache()
    for _ in range(5):
        made, _ = tick(cache, lambda current: Pair(current, None, TableState("x", exists=False), Struct(())))
        cache = parse(dump(made.cache))
        assert made.later == 60
    assert len(asked) == 5 * READS
    assert set(Counter(asked).values()) == {2}


def test_upsert_tables_that_are_slow_to_read_have_their_turn_in_the_next_ticks(very_many, monkeypatch):
    """Given 30 tables that all lag and take so long that a tick has time for a few, then the next ones go on with the others."""
    tick, asked = very_many
    clock, turn = SimpleNamespace(now=0.0), threading.Lock()
    monkeypatch.setattr(ticks, "monotonic", lambda: clock.now)

    def answer(current):
        with turn:
            clock.now += 4
        return Pair(current, None, TableState("x", exists=False), Struct(()))

    cache, told = Cache(), []
    for _ in range(10):
        before = len(asked)
        made, _ = tick(cache, answer, among=30)
        cache = parse(dump(made.cache))
        assert made.later == 30 - (len(asked) - before) > 0
        told += asked[before:]
    assert set(Counter(told)) == {f"shop.t{n:02}_now" for n in range(30)}


def test_tables_that_cannot_be_read_hold_up_no_other(very_many):
    """Given 10 of 30 tables whose metadata cannot be read, first by name, when the others are due, then those are asked for before long, and the first ones are told of."""
    tick, asked = very_many
    ledger = Ledger(cluster_id="c", topic_id="t", topic="t", next={0: 9})
    history = AppendHistory("u", 2, (2,), (AppendReceipt(2, datetime.now(UTC), ledger),))

    def answer(current):
        if current.contract.table < "shop.t10":
            raise Outage("store_down", current.contract.table, "NoSuchBucket")
        return Pair(current, history, TableState("x", exists=False), Struct(()))

    cache, due = Cache(), set[str]()
    for _ in range(6):
        asked.clear()
        made, decision = tick(cache, answer, among=30)
        due |= set(decision.tables)
        cache = parse(dump(made.cache))
    assert sorted(due) == [f"shop.t{n}_now" for n in range(10, 30)]
    assert len([each for each in asked if each < "shop.t10"]) <= merge_tick.PARALLEL
    assert made.down[0].endswith("is store_down: NoSuchBucket")


def test_one_table_that_cannot_be_read_is_not_taken_for_the_catalog(very_many):
    """Given five tables of which four have caught up, when the fifth cannot be read, then it is named, and one other is asked for, which shows whose outage it is."""
    tick, asked = very_many

    def answer(current):
        if current.contract.table == "shop.t03_now":
            raise Outage("store_down", current.contract.table, "NoSuchBucket")
        return Pair(current, None, TableState("x", exists=False), Struct(()))

    cache = Cache()
    for n in (0, 1, 2, 4):
        cache.entry(f"shop.t{n:02}_now").read_at = datetime.now(UTC)
    cache.entry("shop.t03_now").lost = cache.down[CATALOG] = datetime.now(UTC)
    made, _ = tick(cache, answer, among=5)
    assert made.down == ["shop.t03_now is store_down: NoSuchBucket"]
    assert not made.catalog_down
    assert sorted(asked) == ["shop.t00_now", "shop.t03_now"]


def test_a_catalog_that_is_down_is_asked_for_a_few_tables_and_told_of_once(very_many):
    """Given a catalog that answers nobody, when 100 tables are to be looked at, then the tick gives up with the first of them, which are asked for at once, and says why once."""
    tick, asked = very_many

    def down(current):
        time.sleep(0.2)
        raise Outage("catalog_down", current.contract.table, "database is locked")

    made, decision = tick(Cache(), down)
    assert len(asked) < merge_tick.PARALLEL + ticks.OUTAGES_ASKED
    assert made.down == ["the catalog is catalog_down: database is locked"]
    assert not decision.tables


def test_an_edited_target_lag_of_an_upsert_table_counts_without_a_reload(ticking, upserting, monkeypatch):
    found = pair(upserting, merged={0: 5}, end={0: 9}, waited=timedelta(seconds=30))
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {CURRENT_TABLE: found})
    assert not ticking().run_requests
    file = upserting.contracts_dir / "payments.yaml"
    file.write_text(file.read_text().replace("target_lag: 2m", "target_lag: 20s"))
    assert [each.asset_selection for each in ticking().run_requests] == [[CURRENT]]


def test_an_upsert_table_that_stopped_is_tried_again_when_its_contract_changes_on_disk(
    ticking, upserting, monkeypatch
):
    """Given an upsert table that stopped for its contract, when the file is edited and nothing reloaded, then a merge is asked for at once."""
    found = pair(upserting, merged={0: 5}, end={0: 9}, waited=timedelta(hours=1))
    monkeypatch.setattr(merge_tick, "read_pairs", lambda *_: {CURRENT_TABLE: found})
    stopped = Trouble("table_incompatible", 1, datetime.now(UTC))
    first = ticking(dump(Cache({CURRENT_TABLE: Entry(trouble=stopped)})))
    assert "table_incompatible, tried again in" in first.skip_message
    assert "table_incompatible, tried again in" in ticking(first.cursor).skip_message
    file = upserting.contracts_dir / "payments.yaml"
    file.write_text(file.read_text().replace("keys: [id]", "keys: [id, at]"))
    assert [each.asset_selection for each in ticking(first.cursor).run_requests] == [[CURRENT]]


def test_a_merge_shows_its_rows_and_where_columns_come_from(upserting):

    contract = upsert_tables(configuration_of(upserting).contracts)["shop.payments_current"].contract
    outcome = Outcome(
        contract.table,
        "fresh",
        commits=1,
        next={0: 9},
        changes=Changes(9, 4, 2, 1, stale=2),
        undone="back: snapshot 7 was rolled back",
    )
    state = TableState(contract.table, exists=True, rows=20, delete_rows=5, delete_files=2)
    columns = Struct((Field("id", LONG), KAFKA_COLUMN, SOFT_COLUMN))
    metadata = result(contract, outcome, state, columns).metadata
    shown = {key: metadata[key] for key in ("rows_inserted", "rows_updated", "rows_deleted", "rows_stale")}
    assert shown == {"rows_inserted": 4, "rows_updated": 2, "rows_deleted": 1, "rows_stale": 2}
    assert metadata["history"] == "back: snapshot 7 was rolled back"
    assert metadata["dagster/row_count"] == 15
    assert (metadata["delete_files"], metadata["share_deleted"]) == (2, 0.25)
    lineage = metadata["dagster/column_lineage"].deps_by_column
    assert lineage["id"] == [dg.TableColumnDep(AssetKey(["shop", "payments"]), "id")]
    assert lineage["_is_deleted"] == [dg.TableColumnDep(AssetKey(["shop", "payments"]), "_kafka")]


def test_what_a_merge_changes_about_its_table_is_shown_on_the_schema_asset_of_the_append_table(
    upserting, with_upsert, lake
):
    contract = upsert_tables(configuration_of(upserting).contracts)["shop.payments_current"].contract
    entry = {"plan": "abc", "run_id": "r1", "changes": [{}, {}]}
    known = {HISTORY: json.dumps([{**entry, "run_id": "other"}, entry])}
    lake.tables[contract.table] = {"next": {0: 1}, "properties": known}
    shown = run_evolved(lake, contract, "r1")
    assert shown.asset_key in {spec.key for spec in with_upsert.resolve_all_asset_specs()}
    assert shown.asset_key == schema_key("shop.payments")
    assert (shown.metadata["applied"].value, shown.metadata["table"].value) == (2, contract.table)
