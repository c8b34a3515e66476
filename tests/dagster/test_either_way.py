"""Rule: the command line and the launchpad of a job are one act: the same call of the engine, signed the same, logged the same."""

import dataclasses
import json
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import orchestration.definitions
from tidemark.cli import change
from tidemark.cli.main import app
from tidemark.engine.drill import drill
from tidemark.engine.maintain import maintain
from tidemark.engine.operate import accept_upsert, approve, pause, replay, rollback
from tidemark.engine.operate.backfill import act as backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.table.operations import Operation, Signature

ENGINE = {
    (pause, "pause"): "pause",
    (pause, "resume"): "resume",
    (accept_upsert, "accept_either"): "accept",
    (approve, "approve"): "approve",
    (maintain, "maintain_now"): "maintain",
    (replay, "replay"): "replay",
    (rollback, "rollback"): "rollback",
    (backfill, "backfill"): "backfill",
    (drill, "drill"): "drill",
}
ACTS = {
    "pause": [[]],
    "resume": [[]],
    "approve": [["plan-1"]],
    "accept": [["--first-load"], ["--new-epoch"], ["--record-gap"], ["--quarantine-batch"]],
    "maintain": [[], ["--compaction"], ["--snapshots", "--orphans"]],
    "replay": [["--quarantine"], ["--quarantine", "--cause", "undecodable", "--partition", "1", "--from", "2",
               "--to", "9"], ["--partition", "0", "--from", "0", "--to", "7"]],
    "rollback": [["--snapshot", "42"], ["--before", "2026-05-01T08:00:00+02:00"]],
    "backfill": [
        ["--from", "2026-01-01", "--to", "2026-02-01T00:00:00Z", "--source", "table:a.b", "--time-column", "at",
         "--window", "2h", "--rate", "1.5"],
        ["--source", "topic:old/orders", "--max-records", "9", "--cutover"],
        ["--abort"],
    ],
    "drill": [[], ["--scenario", "poison", "--scenario", "kill", "--cluster", "other"]],
}  # fmt: skip
"""Each verb with every option that it has."""
SIGNED = ["--by", "ada", "--reason", "a test"]
CASES = [
    *((verb, [*words, *SIGNED]) for verb, several in ACTS.items() for words in several),
    *((verb, [*ACTS[verb][-1], "--by", "ada", "--dry-run"]) for verb in ("pause", "backfill", "drill")),
]


@pytest.fixture
def calls(monkeypatch, defs, instance, where):
    """What the engine was asked for; the command line works on this configuration and instance."""
    made = []

    def stub(verb):
        def act(_lake, *arguments, **named):
            told = {"asked": [plain(each) for each in (*arguments, *sorted(named.items()))]}
            made.append((verb, told))
            signature = next(each for each in arguments if isinstance(each, Signature))
            return Operation(
                by=signature.by,
                authenticated=signature.authenticated,
                verb=verb,
                table="shop.orders",
                reason=signature.reason,
                run_id=signature.run_id,
                arguments=json.loads(json.dumps({"dry_run": signature.dry_run, **told}, default=str)),
            )

        return act

    for (module, name), verb in ENGINE.items():
        monkeypatch.setattr(module, name, stub(verb))

    @contextmanager
    def ours():
        yield instance

    monkeypatch.setattr(change, "dagster_instance", ours)
    monkeypatch.setattr(orchestration.definitions, "defs", defs)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(where.platform_file))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(where.contracts_dir))
    monkeypatch.setenv("TIDEMARK_HOME", str(where.home))
    return made


def plain(argument):
    """An argument as a value: a contract is its table, a signature what it says but for its run; what only tells is left out."""
    match argument:
        case Signature():
            return dataclasses.replace(argument, run_id="")
        case Asked():
            return dataclasses.replace(argument, pace=None), argument.pace.rate
        case _ if hasattr(argument, "table"):
            return argument.table
        case _ if callable(argument):
            return None
    return argument


def test_each_verb_is_the_same_act_by_either_way(defs, instance, lake, calls):
    """Given each verb with each of its options, when the command line does it and then the launchpad with the config that was printed, then engine, signature and record are the same."""
    for verb, words in CASES:
        table = [] if verb == "drill" else ["shop.orders"]
        told = CliRunner().invoke(app, [verb, *table, *words, "--json"])
        assert told.exit_code == 0, (verb, words, told.output, told.exception)
        printed = json.loads(told.stdout)
        result = defs.resolve_job_def(verb).execute_in_process(
            run_config=printed["launchpad"], instance=instance
        )
        by_cli, by_launchpad = calls[-2:]
        assert by_cli == by_launchpad, (verb, words)
        assert by_cli[0] == verb
        record = recorded(result)
        if verb != "drill":
            shown = {key: value for key, value in printed.items() if key != "launchpad"}
            assert {**shown, "run_id": ""} == {**record, "run_id": ""}, (verb, words)
        assert record["run_id"] == result.run_id != printed["run_id"]


def recorded(result):
    """The operation that a run shows, which is the row that it logged."""
    (metadata,) = [
        event.step_output_data.metadata for event in result.all_events if event.is_successful_output
    ]
    return metadata["tidemark/operation"].value
