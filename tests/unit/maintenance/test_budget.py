"""Rule: every kind of maintenance has a budget of time with each table, and what failed keeps its name."""

import time

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.maintain import expire as expire_module
from tidemark.engine.maintain import maintain as module
from tidemark.engine.maintain.maintain import BUDGET, maintain, maintain_now, tables_of
from tidemark.engine.table.operations import Signature

CONTRACT = Contract(
    topic="t", table="s.t", upsert={"keys": ["id"], "table": "s.t_current"}, retention={"append": "30d"}
)


@pytest.fixture
def asked(monkeypatch):
    """(table or contract, until) of each piece of work."""
    found = []

    def work(_lake, table, *_, until, dry_run):
        assert not dry_run
        found.append((table if isinstance(table, str) else table.table, until))
        return Gain(found[-1][0], "compaction", acted=False, reason="nothing")

    for name in ("compact", "expire", "expire_rows", "remove_orphans"):
        monkeypatch.setattr(module, name, work)
    monkeypatch.setattr(module, "log_what_died", lambda _lake, _table: None)
    return found


def test_each_kind_and_table_has_the_whole_budget(asked):
    began = time.monotonic()
    assert len(list(maintain(None, CONTRACT))) == len(asked) == 1 + 3 * len(tables_of(CONTRACT))
    assert {table for table, _ in asked} == set(tables_of(CONTRACT))
    budget = BUDGET.total_seconds()
    assert all(began + budget <= until <= time.monotonic() + budget for _, until in asked)
    assert [until for _, until in asked] == sorted(until for _, until in asked)


def test_nothing_is_expired_once_the_time_is_over():
    assert expire_module._remove(None, "s.t", [1, 2, 3], until=time.monotonic() - 1) == 0


@pytest.mark.parametrize(
    ("failed", "kind", "state"),
    [
        ([Outage("spark_down", "s.t", "gone")], Outage, "spark_down"),
        ([Stopped("table_missing", "s.t", "gone"), Outage("store_down", "s.t", "x")], Outage, "store_down"),
        ([Stopped("table_missing", "s.t", "gone")], Stopped, "table_missing"),
        ([ValueError("a bug")], Stopped, "failed"),
        ([ValueError("a bug"), ValueError("a bug")], Stopped, "failed"),
    ],
)
def test_an_outage_is_an_outage_for_the_command_line_too(monkeypatch, failed, kind, state):
    """The exit code depends on it: 1 for what is found, 2 for bad use."""
    left = list(failed)

    def compact(*_, **__):
        if left:
            raise left.pop(0)
        return Gain("s.t", "compaction", acted=False, reason="nothing")

    monkeypatch.setattr(module, "compact", compact)

    class Lake:
        def state(self, *_, **__):
            class Table:
                head = 1

            return Table()

        def lose_spark(self):
            pass

    with pytest.raises(kind) as raised:
        maintain_now(Lake(), CONTRACT, ("compaction",), Signature("ada", "a test", dry_run=True))
    assert raised.value.state == state
    assert raised.value.message.count(str(failed[0].args[0])) == len(failed) or state != "failed"
    assert raised.value.message.count("has no name for") == (state == "failed"), raised.value.message
    assert "Next:" not in raised.value.message
