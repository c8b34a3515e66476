"""Rules of the operator jobs: the verbs of the command line, typed, recorded, and a refusal is a failure."""

import inspect

import dagster as dg
import pytest
from dagster._config.pythonic_config import infer_schema_from_config_class
from launchpad import ASKED, execute
from requests.exceptions import HTTPError

from tidemark.cli.change import _operation
from tidemark.domain.errors import Refused
from tidemark.engine.config import discovery
from tidemark.engine.operate import accept_upsert as accept_module
from tidemark.engine.operate import approve as approve_module
from tidemark.engine.operate import pause as pause_module
from tidemark.engine.table.operations import Operation


@pytest.fixture
def calls(monkeypatch):
    """What the engine was asked for."""
    made = []

    def operation(verb, contract, signature, **arguments):
        made.append((verb, contract.table, signature.by, signature.dry_run, arguments))
        return Operation(
            by=signature.by, verb=verb, table=contract.table, reason=signature.reason,
            run_id=signature.run_id, arguments=arguments,
        )  # fmt: skip

    monkeypatch.setattr(pause_module, "pause", lambda _, c, s: operation("pause", c, s))
    monkeypatch.setattr(pause_module, "resume", lambda _, c, s: operation("resume", c, s))
    monkeypatch.setattr(
        accept_module, "accept_either", lambda _, c, what, s: operation("accept", c, s, what=what)
    )
    return made


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_verb_is_done_and_shown_on_the_table(defs, instance, lake, calls, verb):
    result = execute(defs, instance, verb)
    assert result.success
    assert calls == [(verb, "shop.orders", "ada", False, {})]
    (observed,) = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    assert observed.asset_key == dg.AssetKey(["shop", "orders"])
    shown = observed.asset_observation_data.asset_observation.metadata["tidemark/operation"].value
    assert (shown["verb"], shown["by"], shown["reason"], shown["run_id"]) == (
        verb,
        "ada",
        "a test",
        result.run_id,
    )


def test_snapshot_ids_are_shown_as_they_are_and_printed_as_numbers(defs, instance, lake, monkeypatch):
    """Given a browser that rounds numbers beyond 2^53, when an act names snapshots, then Dagster shows them as text and `--json` does not."""
    newest, oldest = 2525993827768689949, 2322719119956212053
    arguments = {"target_snapshot": oldest, "next": {"0": 7}}

    def pause(_, contract, signature):
        return Operation(
            signature.by, "pause", contract.table, str(newest), signature.run_id, arguments, newest, oldest
        )

    monkeypatch.setattr(pause_module, "pause", pause)
    result = execute(defs, instance, "pause")
    (event,) = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    shown = event.asset_observation_data.asset_observation.metadata["tidemark/operation"].value
    assert (shown["before_snapshot"], shown["after_snapshot"]) == (str(newest), str(oldest))
    assert shown["arguments"] == {"target_snapshot": str(oldest), "next": {"0": 7}}
    printed = _operation(result, "pause")
    assert (printed["before_snapshot"], printed["after_snapshot"]) == (newest, oldest)
    assert (printed["arguments"], printed["reason"]) == (arguments, str(newest))


def test_a_dry_run_is_not_shown_on_the_table(defs, instance, lake, calls):
    result = execute(defs, instance, "pause", dry_run=True)
    assert calls[0][3] is True
    assert not [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]


def test_accept_takes_what_the_command_line_takes(defs, instance, lake, calls):
    assert execute(defs, instance, "accept", action="new-epoch").success
    assert calls == [("accept", "shop.orders", "ada", False, {"what": "new-epoch"})]
    with pytest.raises(dg.DagsterInvalidConfigError):
        execute(defs, instance, "accept", action="anything")


def test_a_rename_that_is_approved_is_told_to_the_discovery_file(defs, instance, lake, where, monkeypatch):
    """Given a mart of which the discovery file alone knows what older rows were made of, when an approval renames its table, then it knows that by the new name."""
    column = {"name": "mail", "type": "string", "from": [["shop.before", "email"]]}
    discovery.update(where.home, lambda seen: seen.with_described("marts.mails", [column]))

    def approve(_, contract, plan, signature, tell):
        tell({"shop.before": contract.table})
        return Operation(
            signature.by, "approve", contract.table, "", signature.run_id, {"plan": plan, "changes": []}
        )

    monkeypatch.setattr(approve_module, "approve", approve)
    assert execute(defs, instance, "approve", plan="5f0c").success
    assert discovery.read(where.home).columns("marts.mails")[0]["from"] == [["shop.orders", "email"]]


def test_who_is_not_named_is_taken_from_the_environment(defs, instance, lake, calls, monkeypatch):
    monkeypatch.setenv("TIDEMARK_USER", "grace")
    execute(defs, instance, "pause", by="")
    assert calls[0][2] == "grace"


def test_a_key_without_a_value_is_a_key_that_is_not_there(defs, instance, lake, calls, monkeypatch):
    """Given `by:` and `dry_run:` left empty in the launchpad, when the verb is launched, then it does what it does without them."""
    monkeypatch.setenv("TIDEMARK_USER", "grace")
    assert execute(defs, instance, "pause", reason=None, by=None, dry_run=None).success
    assert calls == [("pause", "shop.orders", "grace", False, {})]


def test_every_config_takes_null_for_its_default(defs):
    """Given all that can be launched, when Dagster's schema offers null for a key, then the config takes it."""
    empty = {}
    for job in defs.get_repository_def().get_all_jobs():
        for node in job.all_node_defs:
            for kind in filter(None, [config_of(node)]):
                offered = infer_schema_from_config_class(kind).config_type.fields
                nulls = {key: None for key, field in offered.items() if not field.is_required}
                asked = {key: ANY[key] for key, field in offered.items() if field.is_required}
                assert kind(**asked, **nulls) == kind(**asked)
                empty[kind.__name__] = len(nulls)
    assert set(empty) >= {
        "Verb",
        "Accept",
        "Approve",
        "Replay",
        "Rollback",
        "Maintain",
        "Backfill",
        "Drill",
        "Build",
    }
    assert "IngestConfig" in empty


ANY = {"table": "shop.orders", "action": "new-epoch", "plan": "a1"}


def config_of(node):
    """The class that an op takes its config as."""
    taken = inspect.signature(node.compute_fn.decorated_fn).parameters.get("config")
    return taken and taken.annotation


def test_whom_the_host_knows_is_taken_from_the_tag_that_the_host_names(defs, instance, lake, monkeypatch):
    """Given a run tag, when the host has not said that it is its own, then it is nothing but a tag."""
    signatures = []

    def pause(_, contract, signature):
        signatures.append(signature)
        return Operation(signature.by, "pause", contract.table, "", signature.run_id, {})

    monkeypatch.setattr(pause_module, "pause", pause)
    config = {"ops": {"pause_table": {"config": ASKED}}}
    job = defs.resolve_job_def("pause")
    for tag in (None, "user"):
        if tag:
            monkeypatch.setenv("TIDEMARK_AUTHENTICATED_TAG", tag)
        job.execute_in_process(run_config=config, instance=instance, tags={"user": "grace@example.org"})
    job.execute_in_process(run_config=config, instance=instance)
    assert [each.by for each in signatures] == ["ada"] * 3
    assert [each.authenticated for each in signatures] == [None, "grace@example.org", None]


def test_a_refusal_fails_the_run_with_its_reason(defs, instance, lake, monkeypatch):
    def refuse(*_args):
        raise Refused("shop.orders is paused already", table="shop.orders")

    monkeypatch.setattr(pause_module, "pause", refuse)
    result = execute(defs, instance, "pause")
    assert not result.success
    assert "paused already" in _why(result)


def test_an_unknown_table_is_refused_by_name(defs, instance, lake, calls):
    result = execute(defs, instance, "pause", table="shop.ordres")
    assert "did you mean shop.orders" in _why(result)
    assert calls == []


def _why(result):
    (failed,) = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    return failed.step_failure_data.user_failure_data.description


def test_what_a_client_library_raises_under_a_verb_gets_its_state(defs, instance, lake, monkeypatch):
    """Given a catalog that does not answer, when a verb is run, then its failure names the state and the table."""

    def locked(*_):
        raise RuntimeError("OperationalError: database is locked")

    monkeypatch.setattr(pause_module, "pause", locked)
    result = execute(defs, instance, "pause")
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    error = failed.step_failure_data.user_failure_data.metadata["error"].value
    assert (error["kind"], error["state"], error["table"]) == ("Outage", "catalog_down", "shop.orders")


def test_no_event_of_a_verb_names_the_password_of_a_catalog(defs, instance, lake, monkeypatch):
    password = "hunter2"

    def refused(*_):
        raise HTTPError(f"401 Client Error for url: https://tide:{password}@catalog/v1/config")

    monkeypatch.setattr(pause_module, "pause", refused)
    result = execute(defs, instance, "pause")
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert "tide:***@catalog" in str(failed.step_failure_data.error)
    kept = instance.all_logs(result.run_id)
    assert password not in "".join(dg.serialize_value(each) for each in kept)
