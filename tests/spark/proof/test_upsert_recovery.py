"""Rule: what is taken back or let in later reaches the upsert table too, and the review pack tells it all."""

import json
from pathlib import Path
from urllib.parse import urlparse

import dagster as dg
from command_line import environ
from typer.testing import CliRunner
from upserted import Upserted

from orchestration.definitions import build_defs
from tidemark.cli.main import app
from tidemark.engine.config.configuration import Places
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature

ADA = Signature("ada", "a test", "by-hand")


def test_an_upsert_table_follows_a_rollback_and_a_replay(lakehouse, monkeypatch):
    """Given a merged table, when it is taken back, read again and its quarantine let in, then the upsert table is the map each time."""
    made = Upserted(lakehouse)
    lake = lakehouse.lake
    made.both((1, "a"), (2, "b"))
    target = made.append.head
    made.both((1, "a2"), (3, "c"), (2, None))
    new = {1: "a2", 3: "c"}
    assert made.rows() == new

    rollback(lake, made.append.contract, Target(target), ADA)
    assert behind(made)
    made.merge()
    assert made.rows() == {1: "a", 2: "b"}
    assert not behind(made)
    resume(lake, made.append.contract, ADA)
    made.append.run()
    made.merge()
    assert made.rows() == new

    made.declare(quality=[{"sql": "v <> 'bad'"}])
    made.both((4, "bad"), (4, "newer"), (5, "bad"))
    assert made.rows() == new | {4: "newer"}
    made.declare()
    moved = replay(lake, made.append.contract, Selection(), ADA, quarantine=True)
    assert moved.arguments["moved"] == 2
    assert behind(made), "though the offsets are what they were"
    made.merge()
    assert made.rows() == new | {4: "newer", 5: "bad"}, "an older event that comes late does not win"
    the_pack_tells(lakehouse, made, monkeypatch)


def test_an_upsert_table_follows_a_rollback_by_hand_of_a_table_whose_snapshots_were_expired(lakehouse):
    """Given a contract that let wrong values in, when it is mended and the append table rolled back by hand and read on before any merge, then no undone value stays, as little as where a replay is taken back so."""
    made, spark = Upserted(lakehouse, partitions=1), lakehouse.spark()
    made.both((1, "a"), (2, "b"))
    made.both((3, "c"))
    expire = f"CALL lake.system.expire_snapshots(table => '{made.append.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    spark.sql(expire)
    good = made.append.head
    made.both((1, "bad"), (2, "bad"))
    assert made.rows() == {1: "bad", 2: "bad", 3: "c"}
    made.declare(quality=[{"sql": "v <> 'bad'"}])
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{made.append.name}', {good})")
    assert made.append.run().rows.quarantined == 2
    made.merge()
    assert made.rows() == {1: "a", 2: "b", 3: "c"}
    assert not behind(made)

    made.declare()
    let_in = made.append.head
    moved = replay(lakehouse.lake, made.append.contract, Selection(), ADA, quarantine=True)
    assert moved.arguments["moved"] == 2
    made.merge()
    assert made.rows() == {1: "bad", 2: "bad", 3: "c"}
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{made.append.name}', {let_in})")
    assert behind(made)
    made.merge()
    assert made.rows() == {1: "a", 2: "b", 3: "c"}

    made.both((4, "d"))
    for _ in range(2):
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{made.append.name}', options => map('rewrite-all', 'true'))"
        )
    spark.sql(expire)
    assert not behind(made), "a history that was cut off behind the merged snapshot is no rollback"


def behind(made):
    return read_pair(made.lakehouse.lake, made.current).behind


def the_pack_tells(lakehouse, made, monkeypatch):
    """`report --json` on the upsert table's name, and the job that makes the page."""
    for name, value in environ(lakehouse).items():
        monkeypatch.setenv(name, value)
    printed = CliRunner().invoke(app, ["report", made.name, "--json"])
    assert printed.exit_code == 0, printed.output
    (told,) = json.loads(printed.stdout)
    assert told["table"] == made.append.name
    assert (told["upsert"]["table"], told["upsert"]["state"], told["upsert"]["rows"]) == (
        made.name,
        "fresh",
        4,
    )
    assert {each["verb"] for each in told["operations"]} == {"rollback", "resume", "replay"}
    assert all(each["balanced"] for each in told["reconciliation"])
    assert told["recovery_point"]["next"] == told["upsert"]["next"]
    defs = build_defs(where=Places(None, lakehouse.contracts, lakehouse.home))
    with dg.instance_for_test() as instance:
        result = defs.resolve_job_def("review").execute_in_process(instance=instance)
        (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert metadata["tables"].value == 1
    html = Path(urlparse(metadata["page"].value).path).read_text(encoding="utf-8")
    for expected in (made.name, "Current state by key", "rollback", "a test"):
        assert expected in html
