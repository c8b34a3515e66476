"""Upsert tables by the command line and Dagster: run, status, plan and the verbs that take them."""

from command_line import cli, dagster_runs
from upserted import Upserted


def test_upsert_tables_are_loaded_looked_at_and_helped_by_the_command_line(lakehouse):
    """Given two topics with upsert tables, when run, then each is its topic as a map; one that is dropped says how it comes back, and does."""
    one, two = (Upserted(lakehouse, partitions=2) for _ in range(2))
    one.send(*((n, "a") for n in range(10)), (3, None), (4, "b"))
    two.send((1, "x"), (1, None))
    code, outcomes = cli(lakehouse, "run")
    told = {each["table"]: each for each in outcomes}
    assert (code, set(told)) == (0, {one.append.name, one.name, two.append.name, two.name})
    assert {each["state"] for each in outcomes} == {"fresh"}
    for key in ("from", "next"):
        assert told[one.name][key] == told[one.append.name][key]
    assert set(told[one.name]["from"].values()) == {0}
    expected = {n: "a" for n in range(10) if n not in {3, 4}} | {4: "b"}
    assert (one.rows(), two.rows()) == (expected, {})
    assert dagster_runs(lakehouse, one.name) == ["SUCCESS"]

    code, statuses = cli(lakehouse, "status")
    assert (code, {each["state"] for each in statuses}) == (0, {"fresh"})
    assert cli(lakehouse, "status", "--not-fresh") == (0, [])
    assert {each["table"]: each["rows"] for each in statuses}[one.name] == len(expected)
    code, (plan,) = cli(lakehouse, "plan", one.name)
    assert (code, plan["verdict"], plan["table"]) == (0, "nothing", one.name)

    lakehouse.spark().sql(f"DROP TABLE {one.name} PURGE")
    one.send((6, "last"), (5, None))
    code, (_, outcome) = cli(lakehouse, "run", one.append.name)
    assert (code, outcome["state"]) == (1, "table_missing")
    assert "--first-load" in outcome["error"]["next_step"]
    assert cli(lakehouse, "accept", one.name, "--first-load", "--reason", "dropped")[0] == 0
    one.merge()
    assert one.rows() == {key: value for key, value in expected.items() if key != 5} | {6: "last"}
