"""Rule: in a catalog that is not the stack's own, whatever happens to a table happens as it does there."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlparse

import pytest
from elsewhere import elsewhere, spark_with
from postgres import postgres
from rest_catalog import rest_catalog
from upserted import FIELDS, Upserted

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.maintenance import compaction
from tidemark.engine.lane import catch_up
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.look.status import judge
from tidemark.engine.look.tables import look
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test", "by-hand")
SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}
NARROW = {"format": "json", "fields": {**FIELDS, "n": "int"}}
WIDE = {"format": "json", "fields": {**FIELDS, "n": "bigint", "note": "string"}}
GOOD = [{"sql": "v <> 'bad'"}]


@pytest.fixture(scope="module")
def on_rest(stack, tmp_path_factory):
    """A server, the block that names it, and a Spark server that can talk to it."""
    with rest_catalog(tmp_path_factory.mktemp("rest")) as (server, block):
        yield server, block, stack["spark"]["remote"]


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory, always_stopped):
    home = tmp_path_factory.mktemp("postgres")
    with (
        postgres(home / "tables") as (server, block),
        always_stopped(home),
        spark_with("postgres", home) as remote,
    ):
        yield server, block, remote


@pytest.fixture(params=["on_rest", pytest.param("on_postgres", marks=pytest.mark.long)], scope="module")
def catalog(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def server(catalog):
    return catalog[0]


@pytest.fixture
def lakehouse(stack, catalog, tmp_path):
    _, block, remote = catalog
    made = elsewhere(stack, remote, block, tmp_path)
    yield made
    made.kill_runs()
    made.close()


FORMATS = pytest.mark.parametrize("format_version", [pytest.param(2, marks=pytest.mark.long), 3])


@FORMATS
def test_the_whole_life_of_a_table(lakehouse, monkeypatch, format_version):
    """Given loads, a plan, a rollback, a replay, maintenance and a rename, then each does there what it does elsewhere."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    made = Upserted(lakehouse, format_version=format_version)
    lake = lakehouse.lake
    said = {"value": NARROW, "quality": GOOD, "maintenance": SOON}
    made.declare(**said)
    made.topic.send_raw([(b"9", b"no json", 0)])
    made.both((1, "a"), (2, "b"), (3, "bad"))
    assert (made.rows(), sorted(made.append.causes().values())) == ({1: "a", 2: "b"}, [1, 1])
    target = made.append.head

    made.declare(**said | {"value": WIDE})
    body = {"id": 4, "region": "eu", "v": "d", "ts": 0, "n": 2**40, "note": "wide"}
    made.topic.send_raw([(b"4", json.dumps(body).encode(), 0)])
    made.both((1, "a2"), (2, None))
    grown = {1: "a2", 4: "d"}
    assert made.rows() == grown
    assert (body["n"], body["note"]) in [
        (r["n"], r["note"]) for r in made.table().scan().to_arrow().to_pylist()
    ]

    rollback(lake, made.append.contract, Target(target), ADA)
    made.merge()
    assert made.rows() == {1: "a", 2: "b"}
    resume(lake, made.append.contract, ADA)
    assert made.append.run().state == "fresh"
    made.merge()
    assert made.rows() == grown

    made.declare(value=WIDE, maintenance=SOON)
    moved = replay(lake, made.append.contract, Selection(), ADA, quarantine=True)
    assert moved.arguments["moved"] == 1
    made.merge()
    assert made.rows() == grown | {3: "bad"}
    is_maintained(made)
    assert made.rows() == grown | {3: "bad"}
    assert reconcile(lake, made.append.contract).sound
    is_renamed(made, grown | {3: "bad"})


def is_maintained(made):
    """Compaction, expiry and orphan removal act, and take what is nobody's alone."""
    data = Path(urlparse(made.append.iceberg().location()).path) / "data"
    for name, days in (("old", 9), ("young", 0)):
        (data / f"{name}.parquet").touch()
        then = time.time() - timedelta(days=days).total_seconds()
        os.utime(data / f"{name}.parquet", (then, then))
    time.sleep(1)  # the age that snapshots may have
    gains = list(maintain(made.lakehouse.lake, made.append.contract))
    assert not [each for each in gains if each.error], gains
    acted = {each.kind for each in gains if each.acted and each.table == made.append.name}
    assert acted == {"compaction", "snapshot_expiry", "orphan_files"}
    assert not (data / "old.parquet").exists()
    assert (data / "young.parquet").exists()


def is_renamed(made, rows):
    """With its quarantine and its upsert table, once approved, and goes on."""
    old = made.append
    new = made.lakehouse.table(made.topic, f"{made.topic.name}_now", **made.said)
    (made.lakehouse.contracts / f"{new.name}.yaml").rename(made.lakehouse.contracts / f"{old.name}.yaml")
    lake = made.lakehouse.open_lake()
    waits = new.run(lake=lake)
    assert waits.state == "schema_review", waits.error
    approve(lake, new.contract, waits.error["plan"], ADA)
    made.send((5, "e"))
    outcome = new.run(lake=lake)
    assert outcome.state == "fresh", outcome.error
    current = upsert_table_of(new.contract)
    assert catch_up_merges(lake, current, "test").error is None
    made.name = current.contract.table
    assert made.rows() == rows | {5: "e"}
    assert not made.lakehouse.catalog.table_exists(old.name)
    assert reconcile(lake, new.contract).sound
    assert sum(new.causes().values()) == 1
    [facts] = look(lake, [new.contract], {})
    assert judge(facts, poll=timedelta(seconds=5), now=datetime.now(UTC)).state == "fresh"
    lake.close()


@FORMATS
def test_a_run_dies_or_the_catalog_and_the_next_run_goes_on(lakehouse, server, monkeypatch, format_version):
    """Given a run killed as it publishes, a catalog that is away, and one that goes away as a run publishes, then each record is there once in the end."""
    topic = lakehouse.cluster.topic("dying", 2)
    table = lakehouse.table(topic, format_version=format_version)
    topic.send(range(10))
    assert table.run().state == "fresh"
    topic.send(range(10, 20))
    table.start(pause_at="publishing").dies()
    assert table.ids() == list(range(10))
    assert table.run().state == "fresh"
    assert table.ids() == list(range(20))

    topic.send(range(20, 30))
    monkeypatch.setattr(catch_up, "RETRIES", 0)
    server.kill()
    assert table.run().state == "catalog_down"
    [facts] = look(lakehouse.lake, [table.contract], {})
    assert judge(facts, poll=timedelta(seconds=5), now=datetime.now(UTC)).state == "catalog_down"
    server.start()
    assert table.run().state == "fresh"
    assert table.ids() == list(range(30))

    topic.send(range(30, 40))
    run = table.start(pause_at="publishing")
    run.reaches_its_pause()
    server.kill()
    run.release()
    assert [each["state"] for each in run.result()] == ["catalog_down"]
    server.start()
    assert table.run().state == "fresh"
    assert table.ids() == list(range(40))
    assert table.holds_everything().quarantined == 0
