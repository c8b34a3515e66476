"""Rule: whether the command line or the launchpad of Dagster does it, it is the same act with the same record."""

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from command_line import cli, environ
from lakehouse import ROOT
from topics import ORDER

from orchestration.definitions import build_defs
from tidemark.engine.config.configuration import Places
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.verify.reconcile import reconcile

VARIES = {"run_id", "before_snapshot", "after_snapshot"}
SAID = {"by", "verb", "table", "reason", "authenticated", "tidemark"}


@pytest.mark.long
def test_an_act_of_the_command_line_and_of_the_launchpad_are_the_same(lakehouse, tmp_path):
    """Given a table, when it is replayed and rolled back by the CLI, and by the jobs with the config that the CLI prints, then both did the same and said the same."""
    topic = lakehouse.cluster.topic("acted", 2)
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.5})
    table.run()
    target = table.head
    signed = ("--by", "ada", "--reason", "a test")

    words = ("replay", table.name, "--partition", "0", "--from", "0", "--to", "11", *signed)
    code, replayed = cli(lakehouse, *words)
    assert (code, replayed["arguments"]["written"], replayed["arguments"]["quarantined"]) == (0, 10, 1)
    launch(lakehouse, tmp_path, "replay", replayed["launchpad"])
    assert same(replayed, *logged(lakehouse, table, "replay"))

    code, back = cli(lakehouse, "rollback", table.name, "--snapshot", str(target), *signed)
    assert (code, back["arguments"]["replays_undone"], back["arguments"]["stale"]) == (0, 2, [])
    assert same(back, *logged(lakehouse, table, "rollback"))
    assert table.run().state == "paused"
    resume = {"ops": {"resume_table": {"config": {"table": table.name, "by": "ada", "reason": "a test"}}}}
    launch(lakehouse, tmp_path, "resume", resume)
    topic.send(range(20, 30))
    assert table.run().rows.written == 10
    assert reconcile(lakehouse.lake, table.contract).sound
    assert table.holds_everything().quarantined == 1


@pytest.mark.long
def test_every_verb_leaves_the_same_record_by_either_way(lakehouse):
    """Given two topics that are the same, when each verb is done to one table by the command line and to the other by its job with the printed config, then the rows of the log differ in nothing but table, run, snapshots and time."""
    one, other = (twin(lakehouse) for _ in range(2))

    def both(verb, *words, **of_other):
        code, told = cli(lakehouse, verb, one.name, *words, "--by", "ada", "--reason", "a test")
        assert code == 0, told
        config = {**told["launchpad"]["ops"][f"{verb}_table"]["config"], "table": other.name, **of_other}
        defs = build_defs(where=Places(None, lakehouse.contracts, lakehouse.home))
        with dg.instance_for_test() as instance:
            defs.resolve_job_def(verb).execute_in_process(
                run_config={"ops": {f"{verb}_table": {"config": config}}}, instance=instance
            )

    both("pause")
    both("resume")
    both("replay", "--quarantine")
    both("replay", "--partition", "0", "--from", "3", "--to", "9")
    both("maintain", "--orphans")
    for each in (one, other):
        each.topic.use({**ORDER, "fields": [*ORDER["fields"], NOTE]})
    plan = {each.name: evolve_now(lakehouse.lake, each.contract, "look").plan.id for each in (one, other)}
    both("approve", plan[one.name], plan=plan[other.name])
    for each in (one, other):
        each.topic.send(range(20, 30))
        each.topic.delete_records({0: 25})
        assert each.run().state == "offsets_expired"
    both("accept", "--record-gap")
    for each in (one, other):
        assert each.run().state == "fresh"
    both("backfill", "--from", "2020-01-01", "--to", "2040-01-01", "--max-records", "3")
    both("backfill", "--abort")
    newest = {each.name: each.head for each in (one, other)}
    both("rollback", "--snapshot", str(newest[one.name]), snapshot=newest[other.name])
    rows = {each.name: all_logged(lakehouse, each) for each in (one, other)}
    verbs = ["pause", "resume", "replay", "replay", "maintain", "approve", "accept", "backfill", "backfill"]
    assert [row["verb"] for row in rows[one.name]] == [*verbs, "rollback"]
    for by_cli, by_launchpad in zip(rows[one.name], rows[other.name], strict=True):
        assert by_cli["run_id"] != by_launchpad["run_id"]
        assert whole(by_cli, one, plan) == whole(by_launchpad, other, plan)


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OWN = {
    "at",
    "run_id",
    "batch_id",
    "checksum",
    "snapshot_id",
    "receipt",
    "target_snapshot",
    "target_time",
    "bytes",
}


def twin(lakehouse):
    """A loaded table with a poison record; every one of them is the same."""
    topic = lakehouse.cluster.topic("either", 1)
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.5}, schema_changes={"add_column": "review"})
    table.run()
    return table


def whole(row, table, plan):
    """A row of the log without what must differ between two tables."""
    text = json.dumps(row["arguments"]).replace(table.topic.name, "TOPIC").replace(plan[table.name], "PLAN")
    snapshots = {name: row[name] is not None for name in ("before_snapshot", "after_snapshot")}
    moved = row["before_snapshot"] != row["after_snapshot"]
    said = {name: row[name] for name in SAID - {"table"}}
    return {**said, **snapshots, "moved": moved, "arguments": without(json.loads(text))}


def without(value):
    match value:
        case {"kind": kind, "acted": acted}:  # what maintenance counts are files of its own table
            return kind, acted, sorted(value)
        case dict():
            return {key: without(each) for key, each in value.items() if key not in OWN}
        case list():
            return [without(each) for each in value]
    return value


def all_logged(lakehouse, table):
    """The rows of the operations log about a table, oldest first."""
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan().to_arrow().to_pylist()
    mine = sorted((row for row in log if row["table"] == table.name), key=lambda row: row["at"])
    return [{**row, "arguments": json.loads(row["arguments"])} for row in mine]


def launch(lakehouse, folder, job, config):
    """The job of that name as Dagster itself runs it."""
    path = folder / f"{job}.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    command = [
        Path(sys.executable).with_name("dagster"),
        "job",
        "execute",
        "-m",
        "orchestration.definitions",
        "-j",
        job,
    ]
    home = {"DAGSTER_HOME": str(lakehouse.home / "dagster")}
    told = subprocess.run(
        [*command, "-c", path],
        env=environ(lakehouse, **home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-2000:]


def logged(lakehouse, table, verb):
    """Those of one verb."""
    return [row for row in all_logged(lakehouse, table) if row["verb"] == verb]


def same(printed, *rows):
    """What was printed is what every row says, but for run and snapshots; each run is its own."""
    said = {key: value for key, value in printed.items() if key not in {*VARIES, "launchpad"}}
    runs = {row["run_id"] for row in rows}
    return (
        printed["run_id"] in runs
        and len(runs) == len(rows)
        and all({key: row[key] for key in said} == said for row in rows)
    )
