"""Rules of the sensor: level-triggered, never an exception for a service that is down, a reason for every skip."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster import AssetKey, DagsterRunStatus
from dagster._core.storage.tags import RUN_KEY_TAG
from sqlalchemy import event
from sqlalchemy.engine import Engine

from assets.names import STOPPED_TAG, TRIGGER_TAG, VERB_TAG, VERBS, pool_filter, pool_of
from assets.runs.handover import Handover
from resources.lake import LakeResource
from sensors import lane_runs, observations
from sensors import tick as ticks
from sensors.append_tick import AppendTick
from sensors.cursor import CATALOG, Cache, Entry, parse
from sensors.kafka_lag import lag_sensor
from sensors.observations import topic_observations, unreported_results, unseen_freshness
from tidemark.domain.cadence import reading
from tidemark.domain.cadence.request import Ask, Trouble
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import ConfigurationError, Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.engine.alive import alive
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import STACK_FILE
from tidemark.engine.config.follow import Followed


@pytest.fixture
def tick(defs, instance, lake, resource, monkeypatch):
    """One tick of a lane's sensor, `later` seconds from now; the cursor is kept from tick to tick."""
    kept = {}

    def make(name="kafka_lag", *, later=0.0, cursor=None):
        class Later(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(seconds=later)

        monkeypatch.setattr(ticks, "datetime", Later)
        with dg.build_sensor_context(
            instance=instance, cursor=cursor or kept.get(name), definitions=defs, resources={"lake": resource}
        ) as context:
            found = defs.resolve_sensor_def(name).evaluate_tick(context)
        kept[name] = found.cursor
        return found

    return make


def loaded(lake, table, committed, end):
    lake.tables[table] = {"next": {0: committed}}
    lake.ends[table.partition(".")[2]] = {0: end}


def slow(monkeypatch, lake, seconds):
    """Each table that is read takes so long, by the clock of ticks."""
    clock, read = SimpleNamespace(now=0.0), lake.state

    def state(table):
        clock.now += seconds
        return read(table)

    monkeypatch.setattr(lake, "state", state)
    for module in (ticks, observations):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)


def all_loaded(lake, count, committed, end, **more):
    """Contracts of as many tables, t0 and so on, of which each is that far."""
    names = [f"t{n:0{len(str(count - 1))}}" for n in range(count)]
    for name in names:
        loaded(lake, f"shop.{name}", committed, end)
    return [Contract.model_validate({"topic": n, "table": f"shop.{n}", **more}) for n in names]


@pytest.fixture(autouse=True)
def level(lake):
    """Every table exists and has caught up."""
    for table in ("shop.orders", "web.clicks", "shop.audit"):
        loaded(lake, table, 10, 10)


def tables_of(request):
    return sorted(key.to_user_string() for key in request.asset_selection)


@pytest.fixture
def run_of(defs, instance):
    """A run of some tables as Dagster's queue would hold it, its pools computed from the real job."""

    def make(tables, status, *, sensor=False, tags=None):
        keys = frozenset(AssetKey(t.split(".")) for t in tables)
        return instance.create_run_for_job(
            defs.resolve_job_def("ingest").get_subset(asset_selection=keys),
            status=status,
            asset_selection=keys,
            tags={**({TRIGGER_TAG: "sensor"} if sensor else {}), **(tags or {})},
        )

    return make


def test_a_lane_that_has_caught_up_asks_for_no_run(tick):
    found = tick()
    assert found.run_requests == []
    assert found.skip_message == "2 of 2 caught up"


def test_each_lane_has_a_sensor_that_runs_from_the_start(defs):
    lags = [s for s in defs.sensors if s.name.startswith("kafka_lag")]
    lanes = {s.name: (s.minimum_interval_seconds, s.default_status) for s in lags}
    running = dg.DefaultSensorStatus.RUNNING
    assert lanes == {"kafka_lag": (5, running), "kafka_lag_slow": (30, running)}


def test_a_lane_whose_runs_go_on_for_longer_than_max_run_says_so(defs, lake):
    """Given so many tables that their results would fill Dagster's database, then the sensor's description has the time that holds."""
    few = [each for each in lake.configuration.contracts if each.lane == "default"]
    lane = lake.platform.lanes["default"]
    many = [few[0].model_copy(update={"table": f"shop.t{n}"}) for n in range(300)]
    said = [lag_sensor("default", lane, each, {}).description for each in (few, many)]
    assert "max_run" not in said[0]
    assert "A run of all its 300 tables hands over after 38 min, not after max_run (5m)" in said[1]


def test_records_wait_until_their_table_nears_its_target_and_then_one_run_is_requested(tick, lake):
    tick()
    lake.ends["orders"] = {0: 25}
    assert "15 records wait, due in" in tick().skip_message
    found = tick(later=50)
    (request,) = found.run_requests
    assert tables_of(request) == ["shop/orders"]
    assert request.tags["tidemark/lane"] == "default"
    assert request.tags["tidemark/trigger"] == "sensor"
    assert request.tags["tidemark/tables"] == "shop.orders"
    assert request.run_key == f"default:{request.tags['tidemark/offsets']}:0"


def test_a_new_table_is_loaded_at_once_even_from_an_empty_topic(tick, lake):
    del lake.tables["web.clicks"]
    lake.ends["clicks"] = {0: 0}
    (request,) = tick().run_requests
    assert tables_of(request) == ["web/clicks"]


def test_a_topic_whose_records_have_all_expired_is_tried_as_rarely_as_an_empty_one(
    lake, instance, monkeypatch
):
    """Given a topic that ends at 100 and holds nothing, when a run could make no table of it, then none is asked for again soon, until a record comes."""
    (clicks,) = (each for each in lake.configuration.contracts if each.table == "web.clicks")
    del lake.tables["web.clicks"]
    cache, began, end = Cache(), datetime.now(UTC), {0: 100}

    def describe_each(topics, whole=True):
        return {name: Topic(name, "main", "id", {0: 100} if whole else end, end, end) for name in topics}

    def asked(**after):
        now = began + timedelta(**after)
        return AppendTick(lake, instance, "default", Lane(), [clicks], cache, now).decide().tables

    monkeypatch.setattr(lake, "kafka", lambda _: SimpleNamespace(describe_each=describe_each))
    assert asked(minutes=0) == ("web.clicks",)
    cache.entry("web.clicks").tried = began
    assert asked(minutes=2) == asked(minutes=9) == ()
    end[0] = 101
    assert asked(minutes=9, seconds=5) == ("web.clicks",)


def test_no_run_is_requested_that_could_not_read_its_contracts(tick, lake, where):
    """Given a contract that is broken on disk, or gone, when records wait, then no run is asked for that would die of it, and the reason says what to do."""
    tick()
    lake.ends["clicks"] = {0: 1000}
    tick()
    broken = where.contracts_dir / "clicks.yaml"
    whole = broken.read_text()
    broken.write_text(whole + "tabel: x\n")
    found = tick(later=600)
    assert found.run_requests == []
    assert f"{broken}:4" in found.skip_message
    assert "did you mean table" in found.skip_message
    broken.unlink()
    found = tick(later=600)
    assert found.run_requests == []
    assert "web.clicks: no contract of lane default on disk any more" in found.skip_message
    lake.ends["orders"] = {0: 1000}
    tick(later=600)
    (request,) = tick(later=1200).run_requests
    assert tables_of(request) == ["shop/orders"], "the others go on"
    broken.write_text(whole)
    (request,) = tick(later=1200).run_requests
    assert tables_of(request) == ["shop/orders", "web/clicks"]


def test_a_contract_that_is_new_on_disk_is_told_until_the_definitions_are_reloaded(tick, lake, where, capfd):
    """Given a contract that was added while Dagster runs, then every tick names its table and says to reload, also one that asks for a run, and one of another lane's sensor."""
    added = where.contracts_dir / "payments.yaml"
    added.write_text("topic: payments\nupsert: {table: lake.paid, keys: [id]}\n")
    says = "lake.payments, lake.paid: a new contract on disk, reload the definitions"
    for _ in range(2):
        assert tick().skip_message == f"2 of 2 caught up; {says}"
    assert says in tick("kafka_lag_slow").skip_message
    lake.ends["orders"] = {0: 1000}
    tick()
    (request,) = tick(later=600).run_requests
    assert tables_of(request) == ["shop/orders"]
    assert says in capfd.readouterr().err
    added.unlink()
    assert says not in (tick(later=600).skip_message or "")


def test_a_contract_that_is_broken_is_told_also_while_nothing_waits(tick, where):
    tick()
    (where.contracts_dir / "payments.yaml").write_text("topic: payments\ntarget_leg: 1m\n")
    assert "payments.yaml:2: " in tick().skip_message
    assert "did you mean target_lag" in tick().skip_message


def test_the_same_offsets_again_are_another_attempt(tick, lake, run_of):
    tick()
    lake.ends["orders"] = {0: 25}
    tick()
    (first,) = tick(later=60).run_requests
    run_of(["shop.orders"], DagsterRunStatus.CANCELED, sensor=True, tags=first.tags)
    (second,) = tick(later=65).run_requests
    assert second.tags["tidemark/offsets"] == first.tags["tidemark/offsets"]
    assert (first.run_key[-2:], second.run_key[-2:]) == (":0", ":1")


def test_a_run_that_somebody_deletes_keeps_no_table_from_being_asked_for(tick, lake, run_of, instance):
    """Given runs with the very same offsets, when an older one is deleted, then the next has a key that none of the others has, for Dagster would skip it."""
    lake.ends["orders"] = {0: 25}
    tick(later=-60)
    asked, runs = [], []
    for _ in range(3):
        (request,) = tick().run_requests
        asked.append(request.run_key)
        tags = {**request.tags, RUN_KEY_TAG: request.run_key}
        runs.append(run_of(["shop.orders"], DagsterRunStatus.CANCELED, sensor=True, tags=tags))
    instance.delete_run(runs[0].run_id)
    (request,) = tick().run_requests
    assert request.run_key not in asked


def test_a_run_that_was_clicked_keeps_its_tables(tick, lake, run_of):
    tick()
    run_of(["shop.orders"], DagsterRunStatus.STARTED)
    lake.ends["orders"] = {0: 25}
    tick()
    found = tick(later=100)
    assert found.run_requests == []
    assert "1 served by a run" in found.skip_message


def test_a_run_that_waits_for_more_than_its_lane_keeps_no_table(tick, lake, defs, instance, run_of, queued):
    """Given a person's run in the queue that needs another pool too, while maintenance or a rebuild holds that, or its limit is 0, then its tables are asked for as ever, until it could begin."""
    tick()
    lake.ends["orders"] = {0: 25}
    tick()
    rebuild = run_of(["shop.audit"], DagsterRunStatus.STARTED)
    both = frozenset({AssetKey(["shop", "orders"]), AssetKey(["shop", "audit"])})
    waits = queued(defs.resolve_job_def("ingest").get_subset(asset_selection=both), selected=both)
    assert tick(later=100).run_requests
    instance.report_run_canceled(rebuild)
    instance.event_log_storage.set_concurrency_slots(pool_of("slow"), 0)
    assert tick(later=150).run_requests
    instance.event_log_storage.set_concurrency_slots(pool_of("slow"), 1)
    found = tick(later=200)
    assert found.run_requests == []
    assert f"1 behind run {waits.run_id[:8]}, which waits in the queue" in found.skip_message
    assert "served" not in found.skip_message


def test_a_table_that_no_run_serves_calls_the_lingering_run_away_and_takes_its_tables_along(
    tick, lake, run_of
):
    tick()
    run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
    lake.ends |= {"orders": {0: 25}, "clicks": {0: 25}}
    tick()
    (request,) = tick(later=300).run_requests
    assert tables_of(request) == ["shop/orders", "web/clicks"]
    assert request.tags["tidemark/tables"] == "web.clicks"


def test_a_run_that_is_about_to_end_has_its_successor_in_the_queue(tick, lake, run_of, instance):
    """Given records for a table that a run lingers for, when `max_run` is over a poll from now, then the next run is asked for, once: the first one makes room for it. Not earlier."""
    tick()
    lingers = run_of(["shop.orders"], DagsterRunStatus.STARTING, sensor=True)
    began = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "ingest")
    instance.report_dagster_event(began, lingers.run_id)
    lake.ends["orders"] = {0: 25}
    assert tick(later=1).run_requests == []
    assert tick(later=250).run_requests == []
    (request,) = tick(later=296).run_requests
    assert tables_of(request) == ["shop/orders"]
    run_of(["shop.orders"], DagsterRunStatus.NOT_STARTED, sensor=True)
    assert Handover(instance, lingers.run_id, pool_of("default"))() is not None
    assert tick(later=301).run_requests == []


def test_a_run_is_told_since_when_records_wait_in_the_tables_that_it_takes_along(tick, lake, defs):
    """Given a table that is not due, when another one's run takes it along, then the run knows the age of what waits there."""
    tick()
    lake.ends["orders"] = {0: 25}
    tick()
    began = int(datetime.now(UTC).timestamp())
    lake.ends["clicks"] = {0: 25}
    tick(later=30)
    (request,) = tick(later=50).run_requests
    assert request.tags["tidemark/tables"] == "shop.orders"
    assert tables_of(request) == ["shop/orders", "web/clicks"]
    told = request.run_config["ops"]["ingest_default"]["config"]["first_seen"]
    assert set(told) == {"web.clicks"}
    assert began + 29 <= told["web.clicks"] <= began + 33
    job = defs.resolve_job_def("ingest").get_subset(asset_selection=frozenset(request.asset_selection))
    assert dg.validate_run_config(job, request.run_config)


def test_a_run_of_the_sensor_that_has_not_begun_is_waited_for(tick, lake, run_of):
    tick()
    lake.ends |= {"orders": {0: 25}, "clicks": {0: 25}}
    tick()
    queued = run_of(["shop.orders"], DagsterRunStatus.NOT_STARTED, sensor=True)
    found = tick(later=500)
    assert found.run_requests == []
    assert found.skip_message == f"run {queued.run_id[:8]} is about to start"


def test_a_run_of_the_sensor_that_waits_for_one_that_somebody_launched_says_so(
    tick, lake, defs, run_of, queued
):
    tick()
    lake.ends |= {"orders": {0: 25}, "clicks": {0: 25}}
    tick()
    clicked = run_of(["shop.orders"], DagsterRunStatus.STARTED)
    clicks = frozenset({AssetKey(["web", "clicks"])})
    job = defs.resolve_job_def("ingest").get_subset(asset_selection=clicks)
    waits = queued(job, selected=clicks, **{TRIGGER_TAG: "sensor"})
    reason = f"waits for run {clicked.run_id[:8]}, which ends when it has caught up"
    assert tick(later=500).skip_message == f"run {waits.run_id[:8]} {reason}"


def test_a_run_of_another_lane_is_nobodys_business(tick, lake, run_of):
    tick()
    run_of(["shop.audit"], DagsterRunStatus.NOT_STARTED, sensor=True)
    lake.ends["orders"] = {0: 25}
    tick()
    assert tick(later=60).run_requests


def test_a_broker_that_is_down_is_a_reason_to_skip_and_only_for_its_own_lane(tick, lake):
    lake.down["main"] = True
    found = tick()
    assert found.run_requests == []
    assert "kafka main is kafka_down: no broker answers" in found.skip_message
    lake.ends["audit"] = {0: 25}
    tick("kafka_lag_slow")
    assert tick("kafka_lag_slow", later=60).run_requests
    assert lake.lost == ["main"], "certificates that were renewed in place are read by a new client alone"
    del lake.down["main"]
    assert tick().skip_message == "2 of 2 caught up"
    assert lake.lost == ["main"]


def test_a_topic_that_is_refused_or_has_no_leader_holds_up_no_other(tick, lake):
    """Given one topic that cannot be seen, when records of another wait, then they are asked for; a run names what is refused, an outage is waited for."""
    lake.ends |= {"orders": {0: 25}, "clicks": Outage("kafka_down", "-", "no leader")}
    tick()
    found = tick(later=60)
    assert [key.to_user_string() for each in found.run_requests for key in each.asset_selection] == [
        "shop/orders"
    ]
    lake.ends["clicks"] = Stopped("permission_denied", "-", "")
    (asked,) = tick(later=62).run_requests
    assert {key.to_user_string() for key in asked.asset_selection} >= {"web/clicks"}


def test_topics_that_are_refused_are_named_three_at_a_time(lake, instance):
    """Given a cluster that refuses 40 topics, when the sensor ticks, then the reason names three and counts the others."""
    names = [f"secret{n}" for n in range(40)]
    contracts = [Contract.model_validate({"topic": name, "table": f"shop.{name}"}) for name in names]
    lake.ends |= dict.fromkeys(names, Stopped("permission_denied", "-", "not authorized"))
    made = AppendTick(lake, instance, "default", Lane(), contracts, Cache())
    made.decide()
    assert made.down[0] == "topic secret0 is permission_denied: not authorized"
    assert (len(made.down), made.down[3]) == (4, "and 37 more")


def test_a_catalog_that_is_down_is_a_reason_to_skip(tick, lake):
    lake.down["catalog"] = True
    found = tick()
    assert found.run_requests == []
    assert "the catalog is catalog_down" in found.skip_message


def test_a_table_that_cannot_be_read_holds_up_no_other(tick, lake, capfd):
    """Given a table whose metadata lies in a bucket that is gone, when records of another wait, then they are asked for, and the first one says why it is not; healed it goes on."""
    tick()
    lake.ends |= {"orders": {0: 25}, "clicks": {0: 25}}
    lake.tables["shop.orders"] = Outage("store_down", "shop.orders", "NoSuchBucket")
    for later in (70, 100, 130, 160):
        found = tick(later=later)
        assert "web.clicks: 15 records wait" in found.skip_message
        assert "shop.orders is store_down: NoSuchBucket" in found.skip_message
    assert "shop.orders: store_down, looked at again in a moment" in found.skip_message
    (request,) = tick(later=600).run_requests
    assert tables_of(request) == ["web/clicks"]
    assert "shop.orders is store_down: NoSuchBucket" in capfd.readouterr().err
    loaded(lake, "shop.orders", 10, 25)
    (request,) = tick(later=630).run_requests
    assert tables_of(request) == ["shop/orders", "web/clicks"]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_catalog_that_is_down_is_asked_for_two_tables_in_a_tick(lake, instance, monkeypatch, hangs):
    """Given 5 tables whose records are due, when the catalog goes down, then no tick asks it more than twice, or once where it hangs, nor asks for a run, and when it is back all are asked for."""
    contracts = all_loaded(lake, 5, 10, 25)
    cache, began = Cache(), datetime.now(UTC)

    def decide(later):
        made = AppendTick(
            lake, instance, "default", Lane(), contracts, cache, began + timedelta(seconds=later)
        )
        return made.decide()

    assert decide(0).tables == ()
    lake.down["catalog"] = True
    if hangs:
        slow(monkeypatch, lake, 30)
    for later in range(65, 200, 5):
        lake.reads.clear()
        assert decide(later).tables == ()
        assert len(lake.reads) <= (1 if hangs else 2)
    del lake.down["catalog"]
    assert len(decide(211).tables) == (1 if hangs else 5)


def test_a_slow_catalog_is_read_from_for_as_long_as_a_tick_may_take(lake, instance, monkeypatch):
    """Given 20 tables each of which takes 1.6 s to read, then no tick begins to read for longer than it may, the next one goes on, and one that could not be read has its turn in each."""
    contracts = all_loaded(lake, 20, 10, 10)
    cache, began = Cache(), datetime.now(UTC)
    slow(monkeypatch, lake, 1.6)

    def read(later):
        lake.reads.clear()
        now = began + timedelta(seconds=later)
        AppendTick(lake, instance, "default", Lane(), contracts, cache, now).decide()
        return list(lake.reads)

    ticked = [read(5 * n) for n in range(4)]
    assert [len(each) for each in ticked] == [7, 7, 6, 0]
    assert [*chain(*ticked)] == [each.table for each in contracts]
    lake.tables["shop.t00"] = Outage("store_down", "shop.t00", "503")
    later = [read(3600 + 120 * n) for n in range(6)]
    assert all("shop.t00" in each and len(each) > 4 for each in later[1:])
    assert {table for each in later for table in each} == {each.table for each in contracts}


def test_results_that_are_owed_are_looked_for_as_long_as_a_tick_may_take(lake, instance, monkeypatch):
    contracts = all_loaded(lake, 20, 10, 10)
    made = AppendTick(lake, instance, "default", Lane(), contracts, Cache())
    for contract in contracts:
        made.cache.tables[contract.table] = Entry(owed=True, read_at=made.now)
    slow(monkeypatch, lake, 1.6)
    told = [len(list(unreported_results(made, Ask((), (), "")))) for _ in range(4)]
    assert told == [7, 7, 6, 0]


def test_clusters_are_asked_at_once(lake, instance, monkeypatch):
    """Given two clusters that answer only when both are asked, then a tick has the topics of both."""
    both = threading.Barrier(2, timeout=20)
    kafka = lake.kafka

    def asked(cluster):
        def describe_each(topics, whole=True):
            both.wait()
            return kafka(cluster).describe_each(topics, whole=whole)

        return SimpleNamespace(describe_each=describe_each)

    monkeypatch.setattr(lake, "kafka", asked)
    made = AppendTick(lake, instance, "default", Lane(), lake.configuration.contracts, Cache())
    made.decide()
    assert sorted(made.topics) == ["main", "other"]


def test_a_catalog_that_is_down_is_so_until_it_answers(lake, instance):
    """Given a catalog that was asked in vain, when a tick asks it for no table, then it asks for no run either, and says why; when the catalog is back that is soon over."""
    contracts = all_loaded(lake, 3, 10, 25)
    cache, began = Cache(), datetime.now(UTC)

    def decide(later):
        lake.reads.clear()
        now = began + timedelta(seconds=later)
        made = AppendTick(lake, instance, "default", Lane(), contracts, cache, now)
        return made.decide().tables, made.down, len(lake.reads)

    assert decide(0) == ((), [], 3)
    cache.entry("shop.t2").read_at = began + timedelta(seconds=30)
    lake.down["catalog"] = True
    assert decide(61) == ((), ["the catalog is catalog_down: database is locked"], 2)
    assert decide(66) == ((), ["the catalog is catalog_down: database is locked"], 1)
    assert decide(70) == ((), ["the catalog is catalog_down, asked again in a moment"], 0)
    del lake.down["catalog"]
    assert decide(76) == (("shop.t0", "shop.t1", "shop.t2"), [], 3)


def test_an_outage_of_the_only_table_that_was_read_holds_its_lane_for_one_tick(lake, instance):
    """Given a table that is read alone and in vain, which may be the catalog's outage, when the next tick finds nothing to read, then it reads another one, and the lane goes on."""
    contracts = all_loaded(lake, 2, 10, 25)
    cache, began = Cache(), datetime.now(UTC)

    def decide(later):
        lake.reads.clear()
        now = began + timedelta(seconds=later)
        return AppendTick(lake, instance, "default", Lane(), contracts, cache, now).decide().tables

    decide(0)
    cache.entry("shop.t1").read_at = began + timedelta(seconds=30)
    lake.tables["shop.t0"] = Outage("store_down", "shop.t0", "NoSuchBucket")
    assert (decide(61), lake.reads) == ((), ["shop.t0"])
    assert (decide(66), lake.reads) == (("shop.t1",), ["shop.t1"])
    decide(67)
    assert lake.reads == []


@pytest.fixture
def crowded(lake, instance):
    """The n-th tick of a lane whose 100 tables, all with records that wait, fill every one of them."""
    lane, began, cache = Lane.model_validate({"poll": "30s"}), datetime.now(UTC), Cache()
    contracts = all_loaded(lake, 100, 10, 20, freshness={"warn": "2m"})

    def tick(n):
        made = AppendTick(lake, instance, "default", lane, contracts, cache, began + n * lane.poll)
        made.decide()
        return made

    for n in range(6):
        tick(n)
    return tick


def test_a_table_that_could_not_be_read_once_is_read_again_in_a_lane_whose_tables_fill_every_tick(
    crowded, lake
):
    lake.tables["shop.t07"] = Outage("store_down", "shop.t07", "503")
    n = next(n for n in range(6, 12) if crowded(n).cache.entry("shop.t07").lost)
    loaded(lake, "shop.t07", 10, 10)
    made = crowded(n + 1)
    assert made.cache.entry("shop.t07").fault is None
    assert all(made.now - entry.read_at < timedelta(minutes=2) for entry in made.cache.tables.values())


def test_a_catalog_that_is_down_turns_tables_red_that_no_tick_has_asked_it_for(crowded, lake):
    """Given a catalog that is asked for two tables in each tick, when it is down for longer than a limit, then all are told of, once."""
    lake.down["catalog"] = True
    told = []
    for n in range(6, 13):
        made = crowded(n)
        told += unseen_freshness(made, made.contracts)
    assert {each.asset_key.path[-1] for each in told} == {f"t{n:02}" for n in range(100)}
    assert len(told) == 100
    assert all(each.severity is dg.AssetCheckSeverity.WARN for each in told)


def test_an_outage_heals_by_itself_with_a_growing_pause(tick, lake, instance, run_of):
    tick()
    lake.ends["orders"] = {0: 25}
    tick()
    stopped = json.dumps({"shop.orders": "spark_down"})
    _finished(instance, run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True), stopped)
    assert "spark_down, tried again in" in tick(later=1).skip_message
    assert tick(later=70).run_requests


@pytest.mark.parametrize(("tables", "minutes"), [(10, 1), (200, 6)])
def test_an_outage_calls_the_run_of_a_large_lane_away_less_often(lake, instance, run_of, tables, minutes):
    """Given tables whose registry is down, and others that a run lingers for, then as their results may be told that often; while none lingers, each minute."""
    began, lost = datetime.now(UTC), ("web.clicks",)
    contracts = [each for each in lake.configuration.contracts if each.lane == "default"]
    contracts += all_loaded(lake, tables - 2, 10, 10)
    lake.ends["clicks"] = {0: 25}

    def asked(**after):
        cache = Cache({"web.clicks": Entry(trouble=Trouble("registry_down", 99, began))})
        now = began + timedelta(**after)
        return AppendTick(lake, instance, "default", Lane(), contracts, cache, now).decide().tables

    assert asked(minutes=1) == lost
    run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
    assert asked(minutes=minutes, seconds=-1) == ()
    assert asked(minutes=minutes + 1) == lost


def _stops_and_is_left_alone(state, tick, lake, instance, run_of):
    tick()
    lake.ends["orders"] = {0: 25}
    tick()
    stopped = json.dumps({"shop.orders": state})
    _finished(instance, run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True), stopped)
    assert f"{state}, tried again in 5" in tick(later=5).skip_message
    assert tick(later=120).run_requests == []


def test_a_stop_state_is_left_alone_until_its_table_changes(tick, lake, instance, run_of):
    _stops_and_is_left_alone("offsets_expired", tick, lake, instance, run_of)
    lake.tables["shop.orders"]["head"] = 2
    (request,) = tick(later=140).run_requests
    assert tables_of(request) == ["shop/orders"]


def test_a_stop_state_is_left_alone_until_its_contract_changes_on_disk(tick, lake, instance, run_of, where):
    """Given a table that stopped for its contract, when the file is edited and nothing reloaded, then the next run, which reads it, is asked for at once."""
    _stops_and_is_left_alone("quality_blocked", tick, lake, instance, run_of)
    file = where.contracts_dir / "orders.yaml"
    file.write_text(file.read_text() + "quality: [{column: id, check: not_null}]\n")
    (request,) = tick(later=140).run_requests
    assert tables_of(request) == ["shop/orders"]


def test_an_edited_target_lag_counts_without_a_reload(tick, lake, where):
    lake.ends["clicks"] = {0: 25}
    tick()
    assert not tick(later=60).run_requests
    edit(where, "target_lag: 5m", "target_lag: 30s")
    (request,) = tick(later=65).run_requests
    assert tables_of(request) == ["web/clicks"]


def test_an_edited_topic_is_looked_at_without_a_reload(tick, lake, where):
    """Given a table whose contract named a topic that is not there, when that is mended and a run has loaded it, then no run is asked for to say that the topic is missing."""
    del lake.ends["clicks"]
    assert tables_of(*tick().run_requests) == ["web/clicks"]
    edit(where, "topic: clicks", "topic: visits")
    lake.ends["visits"] = {0: 10}
    lake.configuration = Followed(where).now()
    assert tick(later=70).skip_message == "2 of 2 caught up"


def test_an_edit_that_needs_a_reload_says_so(tick, where):
    """Given a contract that moves to another lane, then the sensor that served it says to reload and goes by what it knows."""
    tick()
    edit(where, "table: web.clicks", "table: web.clicks\nlane: slow")
    says = "web.clicks: of another lane or cluster on disk, reload the definitions"
    assert tick(later=5).skip_message == f"2 of 2 caught up; {says}"


def test_a_platform_file_counts_without_a_reload(where):
    """Given a platform file that is edited while sensors are at work, then they have clients of what it says now, with the contracts of their definitions; those stay while it is broken, or contracts alone are edited."""
    resource = LakeResource.at(where)
    before, text = resource.shared(), where.platform_file.read_text()
    edit(where, "target_lag: 5m", "target_lag: 30s")
    assert resource.shared() is before
    where.platform_file.write_text(text.replace("very-secret", "renewed").replace("127.0.0.1:2", "b:9"))
    after = resource.shared()
    assert after.platform.kafka["main"].client_properties()["sasl.password"] == "renewed"
    assert after.platform.kafka["other"].client_properties()["bootstrap.servers"] == "b:9"
    assert after.configuration.contracts == before.configuration.contracts
    where.platform_file.write_text("kafka: 5")
    assert resource.shared() is after


def test_clients_stay_while_the_stack_moves_and_a_contract_is_broken(where):
    """Given a stack that is started anew while a contract is broken, then sensors keep the clients that they have; and their contracts, once it is gone and the platform file says something else."""
    resource, contract = LakeResource.at(where), where.contracts_dir / "clicks.yaml"
    before = resource.shared()
    where.home.mkdir(exist_ok=True)
    (where.home / STACK_FILE).write_text("{}")
    contract.write_text("tabel: x")
    with pytest.raises(ConfigurationError):
        resource.configuration  # noqa: B018 - it is a property
    assert resource.shared() is before
    contract.unlink()
    where.platform_file.write_text(where.platform_file.read_text().replace("127.0.0.1:2", "b:9"))
    after = resource.shared()
    assert after is not before
    assert after.configuration.contracts == before.configuration.contracts


def test_a_table_whose_cluster_is_gone_is_looked_at_no_more(tick, lake, where):
    """Given a cluster that the platform file no longer has, as its only contract is gone too, then no tick asks for it, which would end the tick of the whole lane, and the reason says to reload."""
    (where.contracts_dir / "audit.yaml").unlink()
    lake.platform = lake.platform.model_copy(update={"kafka": {"main": lake.platform.kafka["main"]}})
    says = "shop.audit: of another lane or cluster on disk, reload the definitions"
    assert tick("kafka_lag_slow").skip_message == f"0 of 0 caught up; {says}"


def edit(where, was, now):
    file = where.contracts_dir / "clicks.yaml"
    file.write_text(file.read_text().replace(was, now))


def test_runs_of_others_hide_none_of_this_lane(tick, instance, run_of, monkeypatch):
    """Given a run that failed before so many of others that no page of runs has room for it, then its trouble is known, and the next tick need not pass them by again."""
    monkeypatch.setattr(lane_runs, "PAGE", 1)
    monkeypatch.setattr(ticks, "LATE", 0.0)

    def fails(table, state):
        _finished(
            instance, run_of([table], DagsterRunStatus.STARTED, sensor=True), json.dumps({table: state})
        )

    fails("web.clicks", "quality_blocked")
    tick()
    fails("shop.orders", "quality_blocked")
    for _ in range(3):
        instance.report_run_failed(instance.add_run(dg.DagsterRun("another")))
    known = parse(tick().cursor)
    assert known.tables["shop.orders"].trouble.state == "quality_blocked"
    (newest,) = instance.get_run_records(limit=1)
    assert known.runs_until == datetime.fromtimestamp(newest.end_time, UTC)


def test_runs_of_another_lane_that_ended_while_one_of_this_lane_goes_on_are_passed_by_later(
    tick, instance, run_of, monkeypatch
):
    """Given a run whose end Dagster has yet to write, then no end of another lane's run is taken for a time until which all is known."""
    monkeypatch.setattr(ticks, "LATE", 0.0)
    _finished(instance, run_of(["web.clicks"], DagsterRunStatus.STARTED), None)
    first = parse(tick().cursor).runs_until
    mine = run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
    _finished(instance, run_of(["shop.audit"], DagsterRunStatus.STARTED), None)
    assert parse(tick().cursor).runs_until == first
    _finished(instance, mine, '{"shop.orders": "quality_blocked"}')
    assert parse(tick().cursor).tables["shop.orders"].trouble.state == "quality_blocked"


def test_an_end_that_a_clock_ahead_has_written_hides_no_other_and_counts_once(tick, instance, run_of):
    """Given a run that failed on a machine whose clock is minutes ahead, when one of another fails after it, then each is trouble, once, and since its tick at the latest."""

    def fails(table, ahead):
        run = run_of([table], DagsterRunStatus.STARTED, sensor=True)
        instance.add_run_tags(run.run_id, {STOPPED_TAG: json.dumps({table: "quality_blocked"})})
        failed = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, "ingest", message="it stopped")
        instance.report_dagster_event(failed, run.run_id, timestamp=time.time() + ahead)

    fails("web.clicks", 300)
    assert parse(tick().cursor).tables["web.clicks"].trouble.failed_at <= datetime.now(UTC)
    fails("shop.orders", 0)
    known = parse(tick().cursor)
    troubles = [known.tables[table].trouble for table in ("web.clicks", "shop.orders")]
    assert [(each.state, each.failures) for each in troubles] == [("quality_blocked", 1)] * 2
    assert len(known.ahead) == 1
    fails("shop.orders", 350)
    assert not parse(tick(later=400).cursor).ahead


def test_neither_a_tick_nor_a_lingering_run_asks_for_all_runs_of_its_lane(tick, instance, run_of):
    """Given a lane that had runs, then nobody asks by the tag of its pool, which has a row for each run that it ever had."""
    _finished(instance, run_of(["web.clicks"], DagsterRunStatus.STARTED), None)
    tick()
    mine = run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
    (tag,) = pool_filter(pool_of("default"))
    asked = []

    def note(_connection, _cursor, statement, parameters, *_):
        asked.extend([statement] if statement.startswith("SELECT") and tag in parameters else [])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        tick()
        assert Handover(instance, mine.run_id, pool_of("default"))() is None
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert asked == []


def test_a_crashed_run_is_trouble_for_its_tables_and_a_terminated_one_is_not(tick, lake, instance, run_of):
    tick()
    lake.ends["orders"] = {0: 25}
    tick(later=-60)
    _finished(instance, run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True), None)
    assert "shop.orders: failed, tried again in" in tick(later=1).skip_message
    assert tick(later=15).run_requests


def test_a_run_whose_machine_went_down_does_not_hold_its_lane(tick, lake, run_of, instance, where):
    run = run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
    lake.ends["orders"] = {0: 25}
    with alive(where.home, run.run_id):
        assert "1 served by a run" in tick(later=-60).skip_message
    assert "1 served by a run" in tick(later=-50).skip_message  # unknown here, so it may live elsewhere
    (where.home / "runs" / run.run_id).touch()
    tick(later=-40)
    assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.FAILURE
    assert tick(later=60).run_requests


def test_what_a_killed_run_has_published_is_told_by_the_next_tick(tick, lake, run_of, instance, where):
    """Given a run that was killed after a commit, when a tick can read the table, then it has a materialization, once: what is made of it waits for that. A table that the run did not commit to has none."""
    both = ["shop.orders", "web.clicks"]
    run = run_of(both, DagsterRunStatus.STARTED, sensor=True)
    for key in (["shop", "orders"], ["web", "clicks"]):
        known = dg.AssetMaterialization(dg.AssetKey(key), tags={"dagster/data_version": "1"})
        instance.report_runless_asset_event(known)
    tick(later=-60)
    lake.tables["shop.orders"] = {"next": {0: 10}, "run_id": run.run_id, "receipt": 2}
    (where.home / "runs").mkdir(exist_ok=True)
    (where.home / "runs" / run.run_id).touch()
    lake.down["catalog"] = True  # the tick that sees the run's end cannot read the table
    assert not made_by(tick(later=-5))
    del lake.down["catalog"]
    (made,) = [each for later in (0, 5) for each in told(instance, tick(later=later))]
    assert made.asset_key.path == ["shop", "orders"]
    assert made.tags["dagster/data_version"] == "2"


def test_a_click_that_is_cancelled_hides_no_check(tick, lake, defs, instance, queued):
    """Given a late table, when a click on it waits and is cancelled, then the next tick tells again what its checks had found, once, and nothing while it waits."""
    orders = AssetKey(["shop", "orders"])
    for name in ("freshness", "kafka_reconciliation"):
        found = dg.AssetCheckEvaluation(asset_key=orders, check_name=name, passed=False, description="red")
        instance.report_runless_asset_event(found)
    told(instance, tick(later=-60))
    before = told(instance, tick(later=-50), every=True)
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={orders})
    run = queued(job, selected=frozenset({orders}))
    waits = told(instance, tick(later=-40), every=True)
    instance.report_run_canceled(run)
    after = [each for later in (0, 5) for each in told(instance, tick(later=later), every=True)]
    checks = [each for each in after if isinstance(each, dg.AssetCheckEvaluation)]
    assert (before, waits) == ([], [])
    assert {each.check_name: each.description for each in checks} == {
        "kafka_reconciliation": "red",
        "freshness": "everything that the topic holds is published",
    }
    assert len(checks) == 2


@pytest.mark.parametrize("goes_on", [True, False], ids=["a run ends well", "a run is to stop there again"])
def test_what_a_stopped_table_has_published_is_told_when_a_run_looks_again(
    tick, lake, run_of, instance, goes_on
):
    """Given runs that stopped at a table after a commit, when ticks look, then no result hides that before another run shows it again, or has ended well; with it checks that were red are told again."""
    runs = [run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True) for _ in range(2)]
    red = dg.AssetCheckEvaluation(dg.AssetKey(["shop", "orders"]), "files", passed=False)
    instance.report_runless_asset_event(red)
    lake.ends["orders"] = {0: 25}
    tick(later=-90)
    lake.tables["shop.orders"] = {"next": {0: 10}, "run_id": runs[0].run_id, "receipt": 2}
    for run, later in zip(runs, (-80, -70), strict=True):
        _finished(instance, run, json.dumps({"shop.orders": "offsets_expired"}))
        assert made_by(tick(later=later)) == []
    if goes_on:
        again = run_of(["shop.orders"], DagsterRunStatus.STARTED, sensor=True)
        success = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "ingest")
        instance.report_dagster_event(success, again.run_id)
    events = [each for later in (3000, 6000) for each in told(instance, tick(later=later), every=True)]
    (made,) = [each for each in events if isinstance(each, dg.AssetMaterialization)]
    assert made.tags["dagster/data_version"] == "2"
    after = events[events.index(made) + 1]
    assert (after.check_name, after.passed) == ("files", False)


@pytest.mark.parametrize(("verb", "tables"), [("replay", ["shop/orders"]), ("rollback", [])])
def test_what_an_act_has_published_that_died_is_told_by_a_tick(tick, lake, defs, instance, verb, tables):
    """Given a replay whose process dies after it has published, then the next tick tells of it, once; a rollback makes no result."""
    told(instance, tick(later=-60))
    job = defs.resolve_job_def(verb)
    run = instance.create_run_for_job(
        job,
        status=DagsterRunStatus.STARTED,
        tags=dict(job.tags),
        run_config={"ops": {f"{verb}_table": {"config": {"table": "shop.orders"}}}},
    )
    lake.tables["shop.orders"] |= {"receipt": 2, "run_id": run.run_id}
    assert told(instance, tick(later=-50)) == []
    instance.report_run_failed(run)
    made = [each for later in (0, 5, 70) for each in told(instance, tick(later=later))]
    assert [each.asset_key.to_user_string() for each in made] == tables


def test_what_was_published_is_told_to_an_instance_that_knows_nothing_of_it(
    tick, lake, run_of, instance, defs
):
    """Given tables that have caught up and a Dagster database that is new, when a sensor ticks, then each has a result, once, without another look at the catalog: marts wait for that. A run that goes on tells of its own."""
    run = run_of(["web.clicks"], DagsterRunStatus.STARTED, sensor=True)
    lake.tables["web.clicks"] |= {"run_id": run.run_id}
    (made,) = told(instance, tick())
    assert (made.asset_key.path, made.tags["dagster/data_version"]) == (["shop", "orders"], "1")
    assert sorted(lake.reads) == ["shop.orders", "web.clicks"]
    assert told(instance, tick(later=5)) == []
    assert told(instance, tick(later=10, cursor="{}")) == []
    assert lake.reads.count("shop.orders") == 2


def test_a_first_look_at_many_tables_reads_each_of_them_once(lake, instance, monkeypatch):
    """Given more tables than a tick reads, when nothing is known of them, then no tick reads more than that, and all have results in the end."""
    monkeypatch.setattr(reading, "READS", 2)
    few = lake.configuration.contracts
    served = [few[0].model_copy(update={"table": f"shop.t{n}", "topic": f"t{n}"}) for n in range(5)]
    for each in served:
        loaded(lake, each.table, 10, 10)
    cache, made = Cache(), []
    for n in range(3):
        now = datetime.now(UTC) + timedelta(seconds=5 * n)
        found = AppendTick(lake, instance, "default", Lane(), served, cache, now)
        made.append([each.asset_key.path[1] for each in unreported_results(found, found.decide())])
    assert made == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert len(lake.reads) == 5


@pytest.mark.parametrize("known", [False, True])
def test_a_catalog_that_is_down_is_not_asked_for_each_result_that_is_owed(lake, instance, known):
    """Given tables whose results are owed, one of them stopped, when the catalog goes down, then it is asked once more at most: were it hanging, the tick would never end."""
    served = lake.configuration.contracts
    made = AppendTick(lake, instance, "default", Lane(), served, Cache())
    if known:
        made.cache.down[CATALOG] = made.now
    for contract in served:
        made.cache.tables[contract.table] = Entry(owed=True, read_at=made.now)
    lake.down["catalog"] = True
    assert list(unreported_results(made, Ask((), (), ""))) == []
    assert len(lake.reads) == (0 if known else 1)
    del lake.down["catalog"]
    lake.tables |= {each.table: Stopped("ledger_missing", each.table, "") for each in served[:-1]}
    made.cache.down.clear()
    assert len(list(unreported_results(made, Ask((), (), "")))) == 1


def made_by(ticked):
    return [each for each in ticked.asset_events if isinstance(each, dg.AssetMaterialization)]


def told(instance, ticked, *, every=False):
    """Dagster is told what the tick says; the results, or every event."""
    events = ticked.asset_events
    for each in events:
        instance.report_runless_asset_event(each)
    return events if every else made_by(ticked)


def test_a_run_of_another_job_whose_machine_went_down_keeps_nothing_either(tick, defs, instance, where):
    """Given a run that would keep its pool, and be one of those that may run at once, then a tick fails it, whatever it was for."""
    job = defs.resolve_job_def("schema_evolution")
    run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
    with alive(where.home, run.run_id):
        tick()
    assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.STARTED
    (where.home / "runs" / run.run_id).touch()
    tick()
    assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.FAILURE


def test_a_ledger_that_is_gone_is_asked_for_so_that_a_run_names_it(tick, lake):
    lake.tables["shop.orders"] = Stopped("ledger_missing", "shop.orders", "")
    (request,) = tick().run_requests
    assert tables_of(request) == ["shop/orders"]


def test_a_paused_table_says_so(tick, lake):
    lake.tables["shop.orders"]["properties"] = {"tidemark.paused": "{}"}
    lake.ends["orders"] = {0: 99}
    assert "shop.orders: paused" in tick(later=1000).skip_message


def test_a_paused_table_is_as_late_as_any_other(tick, lake):
    """Given a paused table whose records wait, when its freshness is over, then its check fails and says that it is paused."""
    lake.tables["shop.orders"]["properties"] = {"tidemark.paused": "{}"}
    lake.ends["orders"] = {0: 99}
    tick()
    (found,) = [e for e in tick(later=3600).asset_events if isinstance(e, dg.AssetCheckEvaluation)]
    assert (found.passed, found.check_name) == (False, "freshness")
    assert found.description.startswith("the table is paused; ")


def test_a_paused_table_that_nobody_can_look_at_says_that_it_is_paused(tick, lake):
    lake.tables["shop.orders"]["properties"] = {"tidemark.paused": "{}"}
    tick()
    lake.down["catalog"] = True
    tick(later=61)
    told = [e for e in tick(later=700).asset_events if isinstance(e, dg.AssetCheckEvaluation)]
    paused = {e.asset_key.path[-1]: e.description.startswith("the table is paused; ") for e in told}
    assert paused == {"orders": True, "clicks": False}


@pytest.mark.parametrize("cursor", ["rubbish", "{}", '{"v":1,"u":null,"l":null,"t":{}}'])
def test_a_lost_cursor_costs_a_reading_and_nothing_else(tick, lake, cursor):
    lake.ends["orders"] = {0: 25}
    tick(later=-60)
    found = tick(cursor=cursor)
    assert "15 records wait" in found.skip_message
    assert parse(found.cursor).tables["shop.orders"].committed == {0: 10}


def test_tables_are_read_again_at_least_once_a_minute_and_not_at_every_tick(tick, lake):
    tick()
    lake.reads.clear()
    tick(later=5)
    assert lake.reads == []
    tick(later=61)
    tick(later=66)
    assert sorted(lake.reads) == ["shop.orders", "web.clicks"]


def test_quiet_tables_of_a_large_lane_have_their_turn_within_five_minutes(lake, instance):
    """Given 200 tables that have caught up, and one of them whose records wait, then that is read every minute, and of the others a few at each tick."""
    lane, began, cache = Lane.model_validate({"poll": "5s"}), datetime.now(UTC), Cache()
    contracts = all_loaded(lake, 200, 10, 10)
    loaded(lake, "shop.t007", 10, 11)
    read = []
    for n in range(190):
        lake.reads.clear()
        AppendTick(lake, instance, "default", lane, contracts, cache, began + n * lane.poll).decide()
        read.append(list(lake.reads))
    later = read[70:130]
    assert max(map(len, later)) <= reading.QUIET_READS + 2, "five minutes"
    assert {table for each in later for table in each} == {each.table for each in contracts}
    assert sum("shop.t007" in each for each in later) >= 4


def test_many_troubled_tables_do_not_fill_every_tick(lake, instance):
    """Given 200 tables that have stopped, then a tick reads as many of them as of any others, and each within a minute or so."""
    lane, began = Lane.model_validate({"poll": "5s"}), datetime.now(UTC)
    contracts = all_loaded(lake, 200, 10, 11)
    stopped = {each.table: Entry(trouble=Trouble("registry_down", 3, began)) for each in contracts}
    cache, read = Cache(stopped), []
    for n in range(60):
        lake.reads.clear()
        AppendTick(lake, instance, "default", lane, contracts, cache, began + n * lane.poll).decide()
        read.append(list(lake.reads))
    later = read[36:]
    assert max(map(len, later)) <= reading.READS // 2
    assert {table for each in later for table in each} == {each.table for each in contracts}


def test_every_job_of_an_operator_is_known_by_its_verb(defs):
    jobs = {job.name: job.tags.get(VERB_TAG) for job in defs.resolve_all_job_defs()}
    assert {name: verb for name, verb in jobs.items() if verb} == {verb: verb for verb in VERBS}


@pytest.mark.parametrize("verb", VERBS)
def test_tables_are_read_again_when_an_operator_has_acted(tick, lake, defs, instance, verb):
    """Given a table that an operator has taken back, when the sensor ticks again, then it knows what waits now."""
    tick()
    lake.tables["shop.orders"]["next"] = {0: 4}
    assert "2 of 2 caught up" in tick(later=5).skip_message
    run = instance.add_run(dg.DagsterRun(verb, tags=dict(defs.resolve_job_def(verb).tags)))
    instance.report_run_canceled(run)
    assert "shop.orders: 6 records wait" in tick(later=10).skip_message
    lake.reads.clear()
    tick(later=15)
    assert lake.reads == []


def test_topics_are_observed_when_they_move_and_not_more_often_than_reports_are_wanted(tick, lake):
    def observed(found):
        return sorted(
            e.asset_key.to_user_string() for e in found.asset_events if isinstance(e, dg.AssetObservation)
        )

    assert observed(tick()) == ["kafka/main/clicks", "kafka/main/orders"]
    lake.ends["orders"] = {0: 25}
    assert observed(tick(later=5)) == []
    found = tick(later=61)
    assert observed(found) == ["kafka/main/orders"]
    metadata = next(e for e in found.asset_events if isinstance(e, dg.AssetObservation)).metadata
    assert metadata["end_offset"].value == 25
    assert metadata["lag_records"].value == 15
    assert metadata["stream_clock"].value == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    loaded(lake, "shop.orders", 25, 25)
    found = tick(later=200)
    assert observed(found) == ["kafka/main/orders"], "what was told of its lag is no longer so"
    metadata = next(e for e in found.asset_events if isinstance(e, dg.AssetObservation)).metadata
    assert metadata["lag_records"].value == 0
    assert observed(tick(later=300)) == []


@pytest.mark.parametrize(("answers_after", "told"), [(0.0, reading.READS), (7.0, 2)])
def test_topics_are_observed_as_many_as_a_tick_has_time_for(lake, instance, monkeypatch, answers_after, told):
    """Given a lane that begins with many topics, whose clocks Kafka is slow to tell, then each tick tells of some of them, and all have their turn before one has a second."""
    contracts = all_loaded(lake, 2 * reading.READS + 10, 10, 10)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(observations, "monotonic", lambda: clock.now)

    def kafka(_cluster):
        def asked(_topic, _partitions):
            clock.now += answers_after

        return SimpleNamespace(clock=asked)

    cache, began, seen = Cache(), datetime.now(UTC), []
    monkeypatch.setattr(lake, "kafka", kafka)
    ends = {each.topic: Topic(each.topic, "main", "id", {0: 0}, {0: 10}, {0: 10}) for each in contracts}
    for n in range(len(contracts) // told + 1):
        now = began + timedelta(seconds=5 * n)
        made = AppendTick(lake, instance, "default", Lane(), contracts, cache, now, {"main": ends})
        found = list(topic_observations(made, Ask((), (), ""), timedelta(minutes=5)))
        assert len(found) <= told
        seen += [each.asset_key.path[-1] for each in found]
    assert sorted(seen) == [each.topic for each in contracts]


def test_freshness_is_evaluated_when_its_grade_changes(tick, lake):
    def grades(found):
        checks = [e for e in found.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
        return {e.asset_key.to_user_string(): (e.passed, e.severity.value) for e in checks}

    assert grades(tick()) == {"shop/orders": (True, "ERROR"), "web/clicks": (True, "ERROR")}
    lake.ends["orders"] = {0: 25}
    tick(later=1)
    assert grades(tick(later=62)) == {}
    assert grades(tick(later=190)) == {"shop/orders": (False, "WARN")}
    assert grades(tick(later=700)) == {"shop/orders": (False, "ERROR")}


@pytest.mark.parametrize("there", [{}, {"orders": {0: 3}}], ids=["deleted", "made anew"])
def test_a_topic_that_is_gone_makes_no_table_fresh(tick, lake, there, instance, defs):
    """Given records that waited for too long, when their topic is deleted or made anew, then the check stays red: they were never published."""
    tick()
    lake.ends["orders"] = {0: 25}
    tick(later=1)
    assert not graded(tick(later=700))["shop/orders"]
    del lake.ends["orders"]
    lake.ends |= there
    assert graded(tick(later=800)) == {}
    check = dg.AssetCheckKey(AssetKey(["shop", "orders"]), "freshness")
    job = defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={check}
    )
    (found,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
    state = "offsets_regressed" if there else "topic_missing"
    assert (found.passed, found.description) == (False, f"it cannot be judged: {state}")
    lake.ends["orders"] = {0: 10}
    assert graded(tick(later=900)) == {"shop/orders": True}


def graded(found):
    checks = [e for e in found.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
    return {each.asset_key.to_user_string(): each.passed for each in checks}


def test_lag_is_not_measured_from_a_topic_that_is_no_more(tick, lake):
    """Given records that waited when their topic was deleted, when it is made anew and accepted, then a record of it has waited since it came."""
    lake.ends["orders"] = {0: 1000}
    tick(later=-5000)
    loaded(lake, "shop.orders", 0, 0)
    tick(later=-90)
    lake.ends["orders"] = {0: 1}
    assert "1 records wait, due in 4" in tick(later=-5).skip_message


def test_freshness_that_is_evaluated_while_nobody_answers_is_a_warning(tick, lake, instance, defs):
    """Given a table whose check somebody evaluates in an outage, then it cannot be judged, which is no failure of the table."""
    tick()
    lake.down["catalog"] = True
    check = dg.AssetCheckKey(dg.AssetKey(["shop", "orders"]), "freshness")
    job = defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={check}
    )
    (found,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.description == "it cannot be judged: catalog_down"


@pytest.mark.parametrize("what", ["main", "catalog", "its metadata", "its topic"])
def test_who_does_not_answer_turns_freshness_red_in_time(tick, lake, what):
    """Given Kafka, one topic, the catalog or a table's metadata that cannot be read, when that lasts longer than the limits, then the tables are said to be late, and are well when it is back."""

    def verdicts(found):
        checks = [e for e in found.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
        mine = [e for e in checks if e.asset_key.path == ["shop", "orders"]]
        return {(e.passed, e.severity.value, e.metadata["verdict"].value) for e in mine}

    assert verdicts(tick()) == {(True, "ERROR", "nothing_new")}
    if what == "its metadata":
        lake.tables["shop.orders"] = Outage("store_down", "shop.orders", "NoSuchBucket")
    if what == "its topic":
        lake.ends["orders"] = Outage("kafka_down", "-", "no leader")
    lake.down[what] = True
    assert verdicts(tick(later=61)) == set()
    assert verdicts(tick(later=300)) == {(False, "WARN", "not_known")}
    assert verdicts(tick(later=305)) == set(), "once"
    assert verdicts(tick(later=700)) == {(False, "ERROR", "not_known")}
    lake.down.clear()
    loaded(lake, "shop.orders", 10, 10)
    assert verdicts(tick(later=761)) == {(True, "ERROR", "nothing_new")}


@pytest.mark.parametrize("what", ["main", "catalog"])
def test_an_outage_makes_no_table_red_that_was_never_loaded(tick, lake, what):
    """Given a table whose first load is yet to come, when nobody answers for long, then it is not late: no tick could say that it is well again."""
    del lake.tables["shop.orders"]
    tick()
    lake.down[what] = True
    tick(later=61)
    assert graded(tick(later=700)) == {"web/clicks": False}


@pytest.mark.parametrize("what", ["main", "catalog"])
def test_an_outage_makes_no_failure_a_warning(tick, lake, what):
    """Given a table whose check has failed, when nobody answers for as long as warns, then it is not told anew."""
    tick()
    lake.ends["orders"] = {0: 25}
    tick(later=1)
    assert not graded(tick(later=700))["shop/orders"]
    lake.down[what] = True
    tick(later=765)
    assert graded(tick(later=900)) == {}
    lake.down.clear()
    loaded(lake, "shop.orders", 25, 25)
    assert graded(tick(later=961)) == {"shop/orders": True}


def _finished(instance, run, stopped):
    if stopped:
        instance.add_run_tags(run.run_id, {STOPPED_TAG: stopped})
    instance.report_run_failed(run)


def test_a_tick_says_which_columns_its_definitions_show(tick, where):
    """Given definitions that were loaded before a table was first seen, then the discovery file says that they do not show it."""
    discovery.update(where.home, lambda seen: seen.with_described("shop.orders", [{"name": "id"}]))
    tick()
    assert not discovery.read(where.home).shown("shop.orders")
    discovery.update(where.home, lambda seen: seen.with_served(seen.digests()))
    assert discovery.read(where.home).shown("shop.orders")
    tick(later=120)
    assert not discovery.read(where.home).shown("shop.orders"), "these definitions are still the old ones"
