"""OpenLineage as a receiver sees it: every table of a run, begun and ended, and nothing lost while it was down."""

import json
import shutil
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import dagster as dg
import pytest
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

import assets.marts.build
import assets.runs.lane
import assets.runs.maintenance
import resources.lake
import sensors.lineage_answer
import tidemark.review.collect
from assets.names import table_key
from orchestration.definitions import build_defs
from tidemark.domain.columns.types import LONG, STRING, Field, Struct
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import STACK_FILE
from tidemark.engine.marts import project_folder

ORDERS = Struct((Field("id", LONG, "the order"), Field("customer", STRING)))


class Receiver:
    """A real HTTP endpoint that keeps what it was sent."""

    def __init__(self, port=0):
        self.events, self.delay, self.refuses = [], 0.0, {}
        kept, receiver = self.events, self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(receiver.delay)
                refused = receiver.refuses.get(event["job"]["name"])
                if not refused:
                    kept.append(event)
                self.send_response(refused or 201)
                self.end_headers()
                self.wfile.write(b"no header X-Tenant" if refused else b"")

            def log_message(self, *_args):
                pass

        self.server = HTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port

        Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def told(self):
        return [(each["eventType"], each["job"]["name"]) for each in self.events]

    def find(self, state, job):
        return next(e for e in self.events if (e["eventType"], e["job"]["name"]) == (state, job))


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.stop()


@pytest.fixture
def defs(where, receiver):
    with where.platform_file.open("a") as file:
        file.write(f"openlineage: {{transport: {{type: http, url: 'http://127.0.0.1:{receiver.port}'}}}}\n")
    discovery.update(where.home, lambda seen: seen.with_columns("shop.orders", ORDERS))
    return build_defs(where=where)


def half_a_run(context, *_args, **_how):
    """What assets.runs.lane does of which one table succeeds and one stops."""
    yield dg.MaterializeResult(
        asset_key=table_key("shop.orders"),
        metadata={"rows_written": 9, "dagster/row_count": 99, "bytes": 4096},
    )
    raise dg.Failure("topic clicks is missing", allow_retries=False)


def tick(defs, instance, cursor, *, why=False):
    repository = defs.get_repository_def()
    with dg.build_sensor_context(
        instance=instance,
        cursor=cursor,
        repository_def=repository,
        resources={"lake": defs.resources["lake"]},
    ) as context:
        said = repository.get_sensor_def("openlineage").evaluate_tick(context)
        return (context.cursor, said.skip_message) if why else context.cursor


def run(defs, instance, monkeypatch, tables=("shop.orders", "web.clicks")):
    monkeypatch.setattr(assets.runs.lane, "run_tables", half_a_run)
    job = defs.resolve_job_def("ingest")
    keys = [table_key(table) for table in tables]
    return job.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False)


def test_each_table_of_a_run_begins_and_ends_as_it_did(defs, instance, receiver, monkeypatch):
    cursor = tick(defs, instance, None)
    run(defs, instance, monkeypatch)
    cursor = tick(defs, instance, cursor)
    assert sorted(receiver.told()) == [
        ("COMPLETE", "ingest.shop.orders"),
        ("FAIL", "ingest.web.clicks"),
        ("START", "ingest.shop.orders"),
        ("START", "ingest.web.clicks"),
    ]
    done = receiver.find("COMPLETE", "ingest.shop.orders")
    (output,), (source,) = done["outputs"], done["inputs"]
    assert (source["namespace"], source["name"]) == ("kafka://127.0.0.1:1", "orders")
    assert (output["namespace"], output["name"]) == ("file:///nowhere", "shop.orders")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 9
    assert [each["name"] for each in output["facets"]["schema"]["fields"]] == ["id", "customer"]
    made_of = output["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert [(each["name"], each["field"]) for each in made_of] == [("orders", "id")]
    failed = receiver.find("FAIL", "ingest.web.clicks")
    assert "topic clicks is missing" in failed["run"]["facets"]["errorMessage"]["message"]
    assert failed["run"]["runId"] == receiver.find("START", "ingest.web.clicks")["run"]["runId"]
    tick(defs, instance, cursor)
    assert len(receiver.events) == 4, "nothing is told twice"


def test_a_failure_is_told_in_the_words_of_its_cause(defs, instance, receiver, monkeypatch):
    """Given a step that an exception ended, and a run whose process died, then each says why, not that something failed."""
    cursor = tick(defs, instance, None)
    monkeypatch.setattr(assets.runs.lane, "run_tables", lambda *_, **__: 1 // 0)
    job, keys = defs.resolve_job_def("ingest"), {table_key("shop.orders")}
    job.execute_in_process(instance=instance, asset_selection=list(keys), raise_on_error=False)
    dead = instance.create_run_for_job(
        job.get_subset(asset_selection=keys), status=dg.DagsterRunStatus.STARTED, asset_selection=keys
    )
    instance.report_run_failed(dead, "its process died")
    tick(defs, instance, cursor)
    failed = [each for each in receiver.events if each["eventType"] == "FAIL"]
    assert [each["run"]["facets"]["errorMessage"]["message"] for each in failed] == [
        "ZeroDivisionError: integer division or modulo by zero",
        "its process died",
    ]


@pytest.mark.parametrize("orders", [None, "no rights"])
def test_a_table_that_stopped_is_told_in_its_own_words_and_one_that_did_not_as_complete(
    defs, instance, receiver, monkeypatch, orders
):
    """Given steps that fail, one naming the tables that stopped, when their ends are told, then each table has its own error and one without is no failure."""
    says = {"web.clicks": "topic clicks is missing", **({"shop.orders": orders} if orders else {})}

    def stops(context, *_args, **_how):
        slow = table_key("shop.audit") in context.selected_asset_keys
        named = {} if slow else {table: {"message": each} for table, each in says.items()}
        raise dg.Failure("disk full" if slow else "; ".join(says.values()), named, allow_retries=False)

    cursor = tick(defs, instance, None)
    monkeypatch.setattr(assets.runs.lane, "run_tables", stops)
    keys = [table_key(table) for table in ("shop.orders", "web.clicks", "shop.audit")]
    job = defs.resolve_job_def("ingest")
    job.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False)
    tick(defs, instance, cursor)
    ends = [each for each in receiver.events if each["eventType"] != "START"]
    told = {
        each["outputs"][0]["name"]: each["run"]["facets"].get("errorMessage", {}).get("message")
        for each in ends
    }
    assert told == {"shop.orders": None, **says, "shop.audit": "disk full"}
    failed = {each["outputs"][0]["name"] for each in ends if each["eventType"] == "FAIL"}
    assert failed == {*says, "shop.audit"}


def test_a_table_that_could_not_be_maintained_is_told_in_its_own_words(defs, instance, receiver, monkeypatch):
    """Given two tables of which the schedule could maintain neither, then each has its own error."""
    why = {"shop.orders": "files are gone", "web.clicks": "no rights"}

    def fails(_lake, contract, kinds, **_):
        return [Gain(contract.table, *kinds, acted=False, reason="", error={"message": why[contract.table]})]

    monkeypatch.setattr(assets.runs.maintenance, "maintain", fails)
    cursor = tick(defs, instance, None)
    defs.resolve_job_def("snapshot_expiry").execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["maintenance", *t.split("."), "snapshot_expiry"]) for t in why],
        tags={SCHEDULE_NAME_TAG: "snapshot_expiry"},
        raise_on_error=False,
    )
    tick(defs, instance, cursor)
    told = {
        each["outputs"][0]["name"]: each["run"]["facets"]["errorMessage"]["message"]
        for each in receiver.events
        if each["eventType"] == "FAIL"
    }
    assert told == why


def test_a_run_that_was_ended_tells_no_rows_of_what_it_had_published(defs, instance, receiver, monkeypatch):
    """Given a table whose result tells only how many rows it has, as that of a run that was ended does, then these are not told as written."""

    def ended(context, *_args, **_how):
        yield dg.MaterializeResult(asset_key=table_key("shop.orders"), metadata={"dagster/row_count": 99})

    cursor = tick(defs, instance, None)
    monkeypatch.setattr(assets.runs.lane, "run_tables", ended)
    job, keys = defs.resolve_job_def("ingest"), [table_key("shop.orders")]
    assert job.execute_in_process(instance=instance, asset_selection=keys).success
    tick(defs, instance, cursor)
    (output,) = receiver.find("COMPLETE", "ingest.shop.orders")["outputs"]
    assert "outputStatistics" not in output["outputFacets"]


def test_the_end_of_a_table_that_left_the_definitions_is_told(defs, where, instance, receiver):
    """Given a run whose START was told, when its contract is gone from the definitions before it ends, then its end is told as the same run, and what other projects planned is not."""
    cursor = tick(defs, instance, None)
    job, keys = defs.resolve_job_def("ingest"), {table_key("shop.orders")}
    began = instance.create_run_for_job(
        job.get_subset(asset_selection=keys), status=dg.DagsterRunStatus.STARTED, asset_selection=keys
    )

    @dg.multi_asset(name="ingest_of_others", specs=[dg.AssetSpec("theirs")])
    def of_others():
        yield dg.MaterializeResult(asset_key="theirs")

    assert dg.materialize([of_others], instance=instance).success
    cursor = tick(defs, instance, cursor)
    (where.contracts_dir / "orders.yaml").unlink()
    resources.lake._configuration.cache_clear()
    instance.report_run_failed(began, "its process died")
    tick(build_defs(where=where), instance, cursor)
    assert receiver.told() == [("START", "ingest.shop.orders"), ("FAIL", "ingest.shop.orders")]
    first, last = receiver.events
    assert first["run"]["runId"] == last["run"]["runId"]
    assert (len(first["inputs"]), last["inputs"]) == (1, [])


def test_lineage_waits_while_a_contract_is_broken(defs, where, instance, receiver, monkeypatch):
    """Given a stack that is started anew while a contract is broken, then the tick says so, and all is told once that is mended."""
    cursor = tick(defs, instance, None)
    run(defs, instance, monkeypatch)
    contract = where.contracts_dir / "audit.yaml"
    text = contract.read_text()
    contract.write_text("tabel: x\n")
    (where.home / STACK_FILE).write_text("{}")
    kept, said = tick(defs, instance, cursor, why=True)
    assert (kept, "did you mean table" in said) == (cursor, True)
    contract.write_text(text)
    tick(defs, instance, cursor)
    assert len(receiver.events) == 4


def test_an_end_that_dagster_writes_after_a_later_one_is_told_once(defs, instance, receiver, monkeypatch):
    """Given a run whose end is written after that of a run that ended a moment later, and was told, then its end is told, once; so is what follows, also what was written by a clock that is behind another, and a cursor of before goes on."""
    monkeypatch.setattr(sensors.lineage_answer, "AT_ONCE", 1)
    cursor = json.loads(tick(defs, instance, None))
    cursor = json.dumps({name: cursor[name] for name in ("since", "begun", "telling", "told")})
    job, keys = defs.resolve_job_def("ingest"), {table_key("shop.orders")}

    def starts():
        part = job.get_subset(asset_selection=keys)
        return instance.create_run_for_job(part, status=dg.DagsterRunStatus.STARTED, asset_selection=keys)

    def told(run=None, at=0.0):
        nonlocal cursor
        before = len(receiver.events)
        if run:
            failed = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, "ingest", message="it died")
            instance.report_dagster_event(failed, run.run_id, timestamp=at)
        cursor = tick(defs, instance, cursor)
        return [(each["eventType"], each["run"]["runId"]) for each in receiver.events[before:]]

    older, younger, ahead, fourth = starts(), starts(), starts(), starts()
    assert sum(len(told()) for _ in range(5)) == 4
    began = time.time()
    ((kind, run_id),) = told(younger, began)
    assert kind == "FAIL"
    ((kind, other),) = told(older, began - 0.001)
    assert (kind, other != run_id) == ("FAIL", True)
    assert told() == []
    assert [kind for kind, _ in told(ahead, began + 400)] == ["FAIL"]
    assert told() == []
    assert [kind for kind, _ in told(fourth, time.time())] == ["FAIL"]
    kept = json.loads(cursor)
    cursor = json.dumps({**kept, "late": {**kept["late"], "gone FAILURE": began - 100}})
    assert told() == []
    assert "gone FAILURE" not in json.loads(cursor)["late"], "what is older than a minute is forgotten"


@pytest.mark.parametrize(
    ("warehouse", "place"), [("", "https://catalog/api"), (", warehouse: prod", "https://catalog/api/prod")]
)
def test_a_login_in_the_address_of_the_catalog_is_told_to_nobody(
    where, receiver, instance, monkeypatch, warehouse, place
):
    """Given a REST catalog whose address has user and password in it, then the dataset is in its address without them, and in the warehouse where that is named: others are behind the same address."""
    sql = 'type: sql, uri: "sqlite:////nowhere/catalog.db", warehouse: "file:///nowhere"'
    rest = f'type: rest, uri: "https://svc:hunter2@catalog/api/"{warehouse}'
    text = where.platform_file.read_text().replace(sql, rest)
    where.platform_file.write_text(
        f"{text}openlineage: {{transport: {{type: http, url: 'http://127.0.0.1:{receiver.port}'}}}}\n"
    )
    made = build_defs(where=where)
    cursor = tick(made, instance, None)
    run(made, instance, monkeypatch)
    tick(made, instance, cursor)
    assert "hunter2" not in json.dumps(receiver.events)
    (output,) = receiver.find("COMPLETE", "ingest.shop.orders")["outputs"]
    assert output["namespace"] == place


def test_the_review_pack_is_no_dataset(defs, instance, receiver, monkeypatch):
    """Given the run that makes the review pack, then no table of that name is told of."""
    monkeypatch.setattr(tidemark.review.collect, "reviews", lambda *_: [])
    cursor = tick(defs, instance, None)
    assert defs.resolve_job_def("review").execute_in_process(instance=instance, raise_on_error=False).job_def
    tick(defs, instance, cursor)
    assert receiver.told() == []


def test_a_dead_endpoint_stops_nothing_and_hears_of_it_later(defs, instance, receiver, monkeypatch):
    cursor = tick(defs, instance, None)
    receiver.stop()
    result = run(defs, instance, monkeypatch)
    assert len(result.get_asset_materialization_events()) == 1
    before = cursor
    cursor = tick(defs, instance, cursor)
    assert cursor == before, "the cursor stays where the first event could not be sent"
    risen = Receiver(receiver.port)
    tick(defs, instance, cursor)
    risen.stop()
    assert len(risen.events) == 4


@pytest.mark.parametrize(("answer", "others"), [(413, 2), (422, 2), (401, 0), (404, 0)])
def test_an_event_that_is_refused_for_good_holds_up_no_other(
    defs, instance, receiver, monkeypatch, answer, others
):
    """Given an endpoint that takes one table's events never, then the other's are told; one that takes none is waited for."""
    cursor = tick(defs, instance, None)
    run(defs, instance, monkeypatch)
    receiver.refuses = {"ingest.shop.orders": answer}
    cursor = tick(defs, instance, cursor)
    assert [name for _, name in receiver.told()] == ["ingest.web.clicks"] * others
    receiver.refuses = {}
    tick(defs, instance, cursor)
    assert len(receiver.told()) == (2 if others else 4)


@pytest.mark.parametrize("answer", [400, 422])
def test_an_endpoint_that_refuses_everything_is_an_outage(defs, instance, receiver, monkeypatch, answer):
    """Given a wrong address or a missing header, then the tick says what was answered, and all is told once that is mended."""
    before = cursor = tick(defs, instance, None)
    run(defs, instance, monkeypatch)
    receiver.refuses = {"ingest.shop.orders": answer, "ingest.web.clicks": answer}
    cursor, said = tick(defs, instance, cursor, why=True)
    assert cursor == before
    assert str(answer) in said
    assert "no header X-Tenant" in said
    receiver.refuses = {}
    tick(defs, instance, cursor)
    assert len(receiver.told()) == 4


def test_runs_of_which_every_event_is_refused_are_left_out_once_a_later_run_is_taken(
    defs, instance, receiver, monkeypatch
):
    """Given a table whose events the endpoint never takes, then its runs, more than a tick's, wait alone and hold up no other."""
    monkeypatch.setattr(sensors.lineage_answer, "AT_ONCE", 1)
    before = cursor = tick(defs, instance, None)
    receiver.refuses = {"ingest.shop.orders": 422}
    for _ in range(2):
        run(defs, instance, monkeypatch, ["shop.orders"])
    cursor = tick(defs, instance, cursor)
    assert cursor == before
    run(defs, instance, monkeypatch, ["web.clicks"])
    cursor = tick(defs, instance, cursor)
    assert [name for _, name in receiver.told()] == ["ingest.web.clicks"] * 2
    receiver.refuses = {}
    tick(defs, instance, cursor)
    assert len(receiver.told()) == 2


@pytest.mark.parametrize(
    "damaged",
    ["garbage", "[]", "null", '{"v": 99}', '{"since": "a"}', '{"since": 1e30}', '{"since": 1, "begun": 1}'],
)
def test_a_damaged_cursor_begins_anew(defs, instance, receiver, monkeypatch, damaged):
    cursor = tick(defs, instance, damaged)
    assert json.loads(cursor)["since"] > time.time() - 3600
    run(defs, instance, monkeypatch)
    tick(defs, instance, cursor)
    assert len(receiver.events) == 4


def test_a_slow_endpoint_is_told_all_over_several_ticks(defs, instance, receiver, monkeypatch):
    """Given an endpoint that takes longer than a tick may, then each tick goes on behind what the one before has sent."""
    cursor = tick(defs, instance, None)
    run(defs, instance, monkeypatch)
    monkeypatch.setattr(sensors.lineage_answer, "BUDGET_SECONDS", 0.4)
    monkeypatch.setattr(receiver, "delay", 0.3)
    for _ in range(6):
        cursor = tick(defs, instance, cursor)
    assert len(receiver.events) == 4
    assert len({(state, job) for state, job in receiver.told()}) == 4


@pytest.fixture
def sample(where, receiver, lake, resource):
    """The sample contracts, orders with an upsert table, and the marts on them."""
    shutil.rmtree(where.contracts_dir)
    shutil.copytree(project_folder().parent / "contracts", where.contracts_dir)
    with (where.contracts_dir / "orders.yaml").open("a") as file:
        file.write("upsert: [order_id]\n")
    with where.platform_file.open("a") as file:
        file.write(f"openlineage: {{transport: {{type: http, url: 'http://127.0.0.1:{receiver.port}'}}}}\n")
    resources.lake._configuration.cache_clear()
    columns = Struct((Field("order_id", LONG), Field("customerEmail", STRING)))
    made_of = [["shop.orders", "order_id"], ["shop.orders_current", "customeremail"]]  # as dbt tells of it
    revenue = [{"name": "revenue", "type": "long", "from": made_of}]
    discovery.update(where.home, lambda seen: seen.with_columns("shop.orders_current", columns))
    discovery.update(where.home, lambda seen: seen.with_described("marts.daily_revenue", revenue))
    return build_defs({"lake": resource}, where)


def done(context, *_args, **_how):
    """What every kind of run does for its first table."""
    for key in sorted(context.selected_asset_keys)[:1]:
        yield dg.MaterializeResult(asset_key=key, metadata={"rows_written": 5})


def test_merges_marts_and_maintenance_are_told_as_what_they_are(sample, instance, receiver, monkeypatch):
    """Given one run of each kind, then each is an activity of its kind, from its real inputs to its table."""
    monkeypatch.setattr(assets.runs.lane, "run_tables", done)
    monkeypatch.setattr(assets.marts.build, "build", done)
    gain = partial(Gain, acted=True, reason="", numbers={})
    monkeypatch.setattr(
        assets.runs.maintenance, "maintain", lambda _lake, c, kinds, **_: [gain(c.table, *kinds)]
    )
    monkeypatch.setattr(
        assets.runs.maintenance,
        "reconciled_among",
        lambda _lake, _instance, contract, _tables: {
            "asset_key": table_key(contract.table),
            "check_name": "kafka_reconciliation",
            "passed": True,
        },
    )
    cursor = tick(sample, instance, None)
    chosen = {
        "merge": table_key("shop.orders_current"),
        "marts": table_key("marts.daily_revenue"),
        "compaction": dg.AssetKey(["maintenance", "shop", "orders", "compaction"]),
    }
    for job, key in chosen.items():
        assert (
            sample.resolve_job_def(job)
            .execute_in_process(instance=instance, asset_selection=[key], raise_on_error=False)
            .asset_materializations_for_node
        )
    tick(sample, instance, cursor)
    assert {name for state, name in receiver.told() if state == "COMPLETE"} == {
        "upsert.shop.orders_current",
        "dbt.marts.daily_revenue",
        "maintenance.shop.orders.compaction",
    }

    def told(job):
        event = receiver.find("COMPLETE", job)
        made_of = event["outputs"][0]["facets"].get("columnLineage", {"fields": {}})["fields"]
        sources = {
            name: [(f["name"], f["field"]) for f in each["inputFields"]] for name, each in made_of.items()
        }
        return [each["name"] for each in event["inputs"]], event["outputs"][0]["name"], sources

    assert told("upsert.shop.orders_current") == (
        ["shop.orders"],
        "shop.orders_current",
        {"order_id": [("shop.orders", "order_id")], "customerEmail": [("shop.orders", "customerEmail")]},
    )
    assert told("dbt.marts.daily_revenue") == (
        ["shop.orders"],
        "marts.daily_revenue",
        {"revenue": [("shop.orders", "order_id"), ("shop.orders_current", "customerEmail")]},
    )
    assert told("maintenance.shop.orders.compaction") == (["shop.orders"], "shop.orders", {})
