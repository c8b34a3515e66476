"""Rules of the jobs `replay` and `rollback`: the same arguments as on the command line, and what is stale is named."""

import dagster as dg
import pytest

from jobs.recovery import downstream, moment_of
from tidemark.engine.operate import replay as replay_module
from tidemark.engine.operate import rollback as rollback_module
from tidemark.engine.table.operations import Operation

ASKED = {"table": "shop.orders", "reason": "a test", "by": "ada"}


@pytest.fixture
def calls(monkeypatch):
    """What the engine was asked for."""
    made = []

    def operation(verb, contract, signature, **arguments):
        made.append(arguments)
        return Operation(signature.by, verb, contract.table, signature.reason, signature.run_id, arguments)

    def replay(_, contract, signature, wanted, *, quarantine, cause):
        return operation("replay", contract, signature, wanted=wanted, quarantine=quarantine, cause=cause)

    def rollback(_, contract, target, signature, *, downstream):
        return operation("rollback", contract, signature, target=str(target), stale=downstream)

    monkeypatch.setattr(replay_module, "replay", replay)
    monkeypatch.setattr(rollback_module, "rollback", rollback)
    return made


def execute(defs, instance, verb, **config):
    return defs.resolve_job_def(verb).execute_in_process(
        run_config={"ops": {f"{verb}_table": {"config": {**ASKED, **config}}}},
        instance=instance,
        raise_on_error=False,
    )


def test_a_replay_says_what_it_selects(defs, instance, lake, calls):
    assert execute(defs, instance, "replay", quarantine=True, cause="undecodable").success
    assert execute(defs, instance, "replay", partition=1, from_offset=5, to_offset=9).success
    assert calls == [
        {"wanted": (None, None, None), "quarantine": True, "cause": "undecodable"},
        {"wanted": (1, 5, 9), "quarantine": False, "cause": None},
    ]


def test_a_rollback_names_its_target(defs, instance, lake, calls):
    assert execute(defs, instance, "rollback", snapshot=42).success
    assert execute(defs, instance, "rollback", before="2026-05-01T12:00:00+02:00").success
    assert [each["target"] for each in calls] == ["snapshot 42", "before 2026-05-01T10:00:00+00:00"]


def test_a_time_without_an_offset_is_utc():
    assert moment_of("2026-05-01T12:00:00").isoformat() == "2026-05-01T12:00:00+00:00"


def test_everything_that_is_made_from_a_table_is_stale():
    table = dg.AssetSpec(dg.AssetKey(["shop", "orders"]))
    held = dg.AssetSpec(dg.AssetKey(["shop", "orders_quarantine"]), deps=[table])
    current = dg.AssetSpec(dg.AssetKey(["shop", "orders_current"]), deps=[table])
    mart = dg.AssetSpec(dg.AssetKey(["marts", "revenue"]), deps=[current])
    other = dg.AssetSpec(dg.AssetKey(["shop", "customers"]))
    found = downstream([table, held, current, mart, other], "shop.orders")
    assert found == ["shop/orders_current", "marts/revenue"]
    assert downstream([other], "shop.orders") == []
