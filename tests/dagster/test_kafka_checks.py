"""Checks that schedules evaluate: how long Kafka keeps what is not read, and Kafka's records against the rows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from commits import one_commit
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
from dagster._core.storage.tags import SCHEDULE_NAME_TAG
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from pyiceberg.catalog.memory import InMemoryCatalog

from assets.checks import kafka_run, repeated
from assets.checks.ingest import evaluations
from assets.checks.kafka_run import COMPARED_AT
from assets.names import DRIFT, HEADROOM, HEALTH, KAFKA_RECONCILIATION, NEWEST, OUTCOME, table_key, table_of
from sensors.cursor import Cache, Entry, dump
from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.errors import Outage, Refused
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.outcome import Outcome
from tidemark.engine.look import tables
from tidemark.engine.verify.marks import Count
from tidemark.engine.verify.reconcile import Reconciliation

NOW = datetime.now(UTC)
ORIGIN = RemoteRepositoryOrigin(InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="x")), "y")
SOUND = Reconciliation(
    "shop.orders", 0, {0: 0}, (Count(0, 0, 9, 9, 8, 1),), (), 0, compacted=False, seconds=1.0, reading=1.0
)


@pytest.fixture
def check(defs, instance, lake):
    """Evaluates one check of one table, as a schedule or a click would."""

    def evaluate(name, table="shop.orders"):
        key = dg.AssetCheckKey(table_key(table), name)
        job = defs.resolve_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection=set(), asset_check_selection={key})
        result = selected.execute_in_process(instance=instance, resources=None, raise_on_error=False)
        (found,) = result.get_asset_check_evaluations()
        return found

    return evaluate


@pytest.fixture
def headroom(lake, monkeypatch):
    """Of a table that is 5 records behind: what Kafka says of the oldest, and how long it keeps records."""

    def says(left, kept, *, end=15):
        def answer(_cluster, topics):
            if isinstance(kept, Exception):
                raise kept
            return dict.fromkeys(topics, kept)

        lake.ends["orders"], lake.tables["shop.orders"] = {0: end}, {"next": {0: 10}}
        monkeypatch.setattr(tables, "headrooms", lambda _cluster, wanted: dict.fromkeys(wanted, left))
        monkeypatch.setattr(kafka_run, "kept_for", answer)

    return says


def test_headroom_that_cannot_be_asked_is_not_passed(check, lake):
    """Given Kafka that does not answer, then nobody is told that nothing waits."""
    lake.down["main"] = True
    found = check(HEADROOM)
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert found.description == "it cannot be judged: kafka_down"
    lake.down.clear()
    assert check(HEADROOM).description == "it cannot be judged: topic_missing"


def test_headroom_is_judged_by_its_share_of_the_topics_retention(check, headroom):
    verdicts = {}
    for left in (90.0, 20.0, 4.0):
        headroom(left, 100.0)
        found = check(HEADROOM)
        verdicts[left] = found.passed or found.severity.value
    assert verdicts == {90.0: True, 20.0: "WARN", 4.0: "ERROR"}
    assert found.metadata["next"].value == "tidemark status shop.orders"
    headroom(None, None)
    assert check(HEADROOM).passed, "Kafka keeps it for ever"


@pytest.mark.parametrize(
    ("left", "kept", "why"),
    [
        (None, 100.0, "the time of the oldest unread record was not read"),
        (60.0, Outage("kafka_down", "-", "no broker"), "Kafka does not say how long it keeps orders"),
    ],
)
def test_headroom_of_which_a_part_is_not_known_is_not_passed(check, headroom, left, kept, why):
    """Given records that wait, when their age or the topic's retention could not be read, then the check warns; where nothing waits nothing can be lost."""
    headroom(left, kept)
    found = check(HEADROOM)
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert found.description == f"it cannot be judged: {why}"
    headroom(left, kept, end=10)
    assert check(HEADROOM).passed


def test_headroom_is_that_of_the_table_and_not_of_another_at_the_same_topic(lake, headroom, monkeypatch):
    """Given two tables of one topic, one stopped for long and one a moment behind, then only the records of the former are about to go."""
    headroom(None, 100.0)
    orders = lake.configuration.contract("shop.orders")
    lake.tables["web.orders"] = {"next": {0: 14}}
    left = {10: 1.0, 14: 90.0}
    monkeypatch.setattr(
        tables,
        "headrooms",
        lambda _cluster, wanted: {name: left[offsets[0]] for name, (_topic, offsets) in wanted.items()},
    )
    both = [orders, orders.model_copy(update={"table": "web.orders"})]
    assert [each.passed for each in kafka_run.judged_headrooms(lake, both)] == [False, True]


def test_headroom_asks_each_cluster_once_and_reads_no_quarantine(lake, headroom, monkeypatch):
    """Given many tables, then their check costs one question to Kafka, and nothing that only `status` shows."""
    headroom(50.0, 100.0)
    lake.ends["clicks"], lake.tables["web.clicks"] = {0: 15}, {"next": {0: 10}}
    asked = []
    monkeypatch.setattr(
        kafka_run, "kept_for", lambda _, topics: asked.append(topics) or dict.fromkeys(topics, 100.0)
    )
    monkeypatch.setattr(tables, "unresolved", lambda *_: pytest.fail("a scan of a quarantine"))
    chosen = [each for each in lake.configuration.contracts if each.cluster == "main"]
    assert [each.passed for each in kafka_run.judged_headrooms(lake, chosen)] == [True, True]
    assert asked == [["clicks", "orders"]]


def test_reconciliation_plots_what_it_counted_and_says_what_to_do(check, monkeypatch):
    monkeypatch.setattr(kafka_run, "reconcile", lambda *_args, **_how: SOUND)
    found = check(KAFKA_RECONCILIATION)
    assert found.passed
    assert {n: found.metadata[n].value for n in ("kafka_records", "rows", "quarantined", "gaps")} == {
        "kafka_records": 9,
        "rows": 8,
        "quarantined": 1,
        "gaps": 0,
    }
    lost = replace(SOUND, counts=(Count(0, 0, 9, 9, 8, 0, gaps=[(4, 5)]),))
    monkeypatch.setattr(kafka_run, "reconcile", lambda *_args, **_how: lost)
    found = check(KAFKA_RECONCILIATION)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert found.description.startswith("1 offsets of Kafka are in no place, 0 are there twice")
    assert found.metadata["next"].value == "tidemark reconcile shop.orders"
    aborted = replace(SOUND, counts=(Count(0, 0, 9, 9, 8, 0, unknown=[(4, 6)]),))
    monkeypatch.setattr(kafka_run, "reconcile", lambda *_args, **_how: aborted)
    assert check(KAFKA_RECONCILIATION).description.endswith(", 2 rows have no record in Kafka")


def test_what_cannot_be_compared_is_no_loss(check, monkeypatch):
    def refuse(error):
        def raised(*_args, **_how):
            raise error

        monkeypatch.setattr(kafka_run, "reconcile", raised)

    refuse(Refused("never loaded", next_step="", table="shop.orders"))
    assert check(KAFKA_RECONCILIATION).passed
    refuse(Outage("kafka_down", "shop.orders", "no broker"))
    found = check(KAFKA_RECONCILIATION)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)


@pytest.mark.parametrize("name", [KAFKA_RECONCILIATION, DRIFT, HEALTH])
def test_a_table_that_was_dropped_is_not_one_that_was_never_loaded(check, lake, instance, name):
    """Given a table that is not there, when Dagster's records know that a run has loaded it, then its checks are not green."""
    lake.ends["orders"], lake.catalog = {0: 9}, InMemoryCatalog("lake")
    assert check(name).passed, "there is nothing to be wrong yet"
    result = dg.AssetMaterialization(table_key("shop.orders"), metadata={OUTCOME: {}})
    instance.report_runless_asset_event(result)
    found = check(name)
    assert not found.passed
    assert "table_missing" in f"{found.description} {found.metadata}"


def test_a_compaction_that_acted_is_followed_by_a_reconciliation_unless_one_was_just_made(
    defs, instance, lake, monkeypatch
):
    """Given a table that each scheduled compaction rewrites, then it is compared with Kafka every six hours, also when a run has said the last result again; a click compares it always, and so does a schedule that finds it red."""
    outcome, contract = SOUND, lake.configuration.contract("shop.orders")

    def maintain(_lake, contract, kinds, **_how):
        for kind in kinds:
            yield Gain(contract.table, kind, acted=contract.table == "shop.orders", reason="", numbers={})

    def compared(hours=0, **tags):
        clock = SimpleNamespace(time=lambda: hours * 3600.0)
        monkeypatch.setattr(kafka_run, "time", clock)
        result = defs.resolve_job_def("compaction").execute_in_process(instance=instance, tags=tags)
        logged = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        found = [each.dagster_event.asset_check_evaluation_data for each in logged]
        return [(each.asset_key, each.check_name) for each in found]

    scheduled = {SCHEDULE_NAME_TAG: "compaction"}
    monkeypatch.setattr("assets.runs.maintenance.maintain", maintain)
    monkeypatch.setattr("assets.runs.maintenance.relieve", lambda *_: iter(()))
    monkeypatch.setattr(kafka_run, "reconcile", lambda *_args, **_how: outcome)
    orders = [(table_key("shop.orders"), KAFKA_RECONCILIATION)]
    assert compared(**scheduled) == orders
    assert compared(hours=5, **scheduled) == []
    for found in repeated.newest(instance, contract, [KAFKA_RECONCILIATION]):
        instance.report_runless_asset_event(found)
    assert compared(hours=5) == orders
    assert compared(hours=10, **scheduled) == []
    outcome = replace(SOUND, beyond=1)
    assert compared(hours=12, **scheduled) == orders
    assert compared(hours=13, **scheduled) == orders


def test_while_a_lane_waits_all_tables_are_compared_by_no_more_than_one_is_otherwise(
    defs, instance, lake, monkeypatch
):
    """Given a run that fills a table too, when it evaluates the check of three, then what was sound lately is said again, what was not is looked at whole, and the others share what one reads; a run of checks alone reads all of each."""
    compared, orders, lost = {}, table_key("shop.orders"), set()
    tables = [each.table for each in lake.configuration.contracts]
    checks = {dg.AssetCheckKey(table_key(table), KAFKA_RECONCILIATION) for table in tables}

    def reconcile(_lake, contract, *, newest):
        compared[contract.table] = newest
        return replace(SOUND, beyond=1) if contract.table in lost else SOUND

    def evaluated(*filled):
        """What was compared; the tables that were compared whole; those that are red."""
        compared.clear()
        job = defs.resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection=set(filled), asset_check_selection=checks)
        found = chosen.execute_in_process(instance=instance).get_asset_check_evaluations()
        whole = {table_of(each.asset_key) for each in found if COMPARED_AT in each.metadata}
        return dict(compared), whole, {table_of(each.asset_key) for each in found if not each.passed}

    monkeypatch.setattr(kafka_run, "reconcile", reconcile)
    monkeypatch.setattr("assets.runs.lane.run_tables", lambda *_: iter([dg.MaterializeResult(orders)]))
    assert evaluated(orders) == (dict.fromkeys(tables, NEWEST // 3), set(), set())
    lost |= {"shop.orders", "web.clicks"}
    assert evaluated() == (dict.fromkeys(tables, NEWEST), set(tables), lost)
    assert evaluated(orders) == (dict.fromkeys(lost, NEWEST), set(tables), lost), (
        "a look at less overrules no fault"
    )


def test_every_check_has_a_schedule_or_a_sensor_that_evaluates_it(defs, instance, lake):
    graph = defs.resolve_asset_graph()
    of_assets = [each.job for each in defs.schedules if each.name not in {"drill", "purge_runs"}]
    scheduled = {key for each in of_assets for key in each.selection.resolve_checks(graph)}
    looks = defs.resolve_job_def("schema_evolution")
    result = looks.execute_in_process(instance=instance, raise_on_error=False)
    logged = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    scheduled |= {each.dagster_event.asset_check_evaluation_data.asset_check_key for each in logged}
    for table in ("shop.orders", "web.clicks", "shop.audit"):
        assert {
            dg.AssetCheckKey(table_key(table), name) for name in (HEADROOM, KAFKA_RECONCILIATION)
        } <= scheduled


def test_a_click_knows_since_when_the_sensor_has_seen_what_waits(check, instance, lake):
    """Given a record that the sensor saw five minutes ago, then the check says so, whatever the record's own time."""
    lake.ends["orders"] = {0: 11}
    lake.tables["shop.orders"] = {"next": {0: 10}}
    assert check("freshness").passed, "nobody has seen it before: it is seen now for the first time"
    seen = Entry({0: 10}, sightings=[Sighting(datetime.now(UTC) - timedelta(minutes=5), {0: 11})])
    data = SensorInstigatorData(cursor=dump(Cache({"shop.orders": seen})))
    origin = RemoteInstigatorOrigin(ORIGIN, "kafka_lag")
    instance.add_instigator_state(
        InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)
    )
    found = check("freshness")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["verdict"].value == "arrived_not_written"
    assert found.metadata["lag_seconds"].value >= 300
    lake.tables["shop.orders"]["staged"] = True
    assert check("freshness").metadata["verdict"].value == "written_not_published"


@pytest.mark.parametrize(("bad", "passed"), [(0, True), (5, False)])
def test_what_a_decision_sends_aside_makes_no_rate_red_and_hides_nothing(defs, bad, passed):
    """Given batches half of whose records an approval sends to the quarantine, when judged, then the others alone are, and the check says how many there were beside."""
    contract = defs.resources["lake"].configuration.contract("shop.orders")
    rows, causes = Counts(30 + bad, 15, 15 + bad), {"schema_not_allowed": 15}
    if bad:
        causes["undecodable"] = bad
    outcome = Outcome("shop.orders", "fresh", commits=1, rows=rows, causes=causes)
    found = {each.check_name: each for each in evaluations(contract, outcome)}["quarantine_rate"]
    assert (found.passed, found.metadata["rows_read"].value) == (passed, 15 + bad)
    assert found.metadata["rows_sent_aside"].value == 15
    assert found.description.endswith("; 15 more were sent aside by decision")
    assert ("5 of 20 records could not enter: undecodable 5" in found.description) == bool(bad)


def test_late_rows_and_watermark_are_a_check_with_figures(defs):
    contract = (
        defs.resources["lake"].configuration.contract("shop.orders").model_copy(update={"event_time": "at"})
    )
    commit = one_commit(at=NOW, watermark=NOW - timedelta(minutes=2))

    def evaluated(late):
        outcome = Outcome("shop.orders", "fresh", commits=1, rows=Counts(20, 20), late=late, last=commit)
        return {each.check_name: each for each in evaluations(contract, outcome)}["event_time"]

    few, most = evaluated(3), evaluated(15)
    assert (few.passed, most.passed, most.severity) == (True, False, dg.AssetCheckSeverity.WARN)
    assert (few.metadata["rows_late"].value, few.metadata["share_late"].value) == (3, 0.15)
    assert few.metadata["watermark_age_seconds"].value == 120.0
    commit = replace(commit, watermark=None)  # there is no such column, or no row has had a time yet
    outcome = Outcome("shop.orders", "fresh", commits=1, rows=Counts(20, 20), last=commit)
    assert "event_time" not in {each.check_name for each in evaluations(contract, outcome)}
