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
from tidemark.engine.preview.foresee import evolve_now
from tidemark.engine.verify.reconcile import reconcile

VARIES = {"run_id", "before_snapshot", "after_snapshot"}
SAID = {"by", "verb", "table", "reason", "authenticated", "tidemark"}


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
    """Given each verb once by the command line and once by its job with the printed config, then both rows of the log say the same."""
    topic = lakehouse.cluster.topic("either", 1)
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.5}, schema_changes={"add_column": "review"})
    table.run()

    def by_cli(verb, *words):
        code, told = cli(lakehouse, verb, table.name, *words, "--by", "ada", "--reason", "a test")
        assert code == 0, told
        return told["launchpad"]["ops"][f"{verb}_table"]["config"]

    def by_launchpad(verb, config):
        defs = build_defs(where=Places(None, lakehouse.contracts, lakehouse.home))
        with dg.instance_for_test() as instance:
            job = defs.resolve_job_def(verb)
            job.execute_in_process(
                run_config={"ops": {f"{verb}_table": {"config": config}}}, instance=instance
            )

    pause = by_cli("pause")
    by_launchpad("resume", pause)
    by_launchpad("pause", pause)
    by_cli("resume")
    for verb, words in {"replay": ["--quarantine"], "maintain": ["--orphans"]}.items():
        by_launchpad(verb, by_cli(verb, *words))
    begun, columns, printed = 20, list(ORDER["fields"]), {}
    for way in ("cli", "launchpad"):
        columns.append({"name": f"by_{way}", "type": ["null", "string"], "default": None})
        topic.use({**ORDER, "fields": columns})
        plan = evolve_now(lakehouse.lake, table.contract, "look").plan.id
        acts = {"approve": [plan], "accept": ["--record-gap"]}
        for verb, words in acts.items():
            if verb == "accept":
                topic.send(range(begun, begun + 10))
                topic.delete_records({0: begun + 5})
            if way == "cli":
                printed[verb] = by_cli(verb, *words)
            else:
                by_launchpad(verb, printed[verb] | ({"plan": plan} if verb == "approve" else {}))
        assert table.run().state == "fresh"
        begun += 10
    for verb in ("pause", "resume", "replay", "maintain", "approve", "accept"):
        one, other = logged(lakehouse, table, verb)
        assert {k: v for k, v in one.items() if k in SAID} == {k: v for k, v in other.items() if k in SAID}
        assert one["run_id"] != other["run_id"]
        assert one["arguments"].keys() == other["arguments"].keys()
        if verb in {"pause", "resume", "replay"}:
            assert one["arguments"] == other["arguments"]


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
    """The rows of the operations log, oldest first."""
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan().to_arrow().to_pylist()
    mine = sorted((r for r in log if (r["table"], r["verb"]) == (table.name, verb)), key=lambda r: r["at"])
    return [{**row, "arguments": json.loads(row["arguments"])} for row in mine]


def same(printed, *rows):
    """What was printed is what every row says, but for run and snapshots; each run is its own."""
    said = {key: value for key, value in printed.items() if key not in {*VARIES, "launchpad"}}
    runs = {row["run_id"] for row in rows}
    return (
        printed["run_id"] in runs
        and len(runs) == len(rows)
        and all({key: row[key] for key in said} == said for row in rows)
    )
