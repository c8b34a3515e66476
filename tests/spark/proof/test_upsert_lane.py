"""Rule: one run serves all upsert tables that are due, side by side, and goes on while more comes."""

import threading
from datetime import timedelta

from upserted import Upserted

from tidemark.domain.config.platform import Lane
from tidemark.engine.lane import merge_catch_up, upsert_work
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.lane.serve import serve
from tidemark.engine.lane.upsert_work import UpsertWork
from tidemark.engine.merge import batch, stage
from tidemark.engine.merge import plan as plan_module
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.table.operations import Signature


def test_one_run_merges_all_due_tables_at_once_and_what_comes_later_too(lakehouse, monkeypatch):
    """Given two tables that are due, when one run serves them, then neither waits for the other, and later rows follow."""
    several = [Upserted(lakehouse, partitions=1, target_lag="1s") for _ in range(2)]
    for made in several:
        made.send((1, "a"), (2, "b"), (1, "c"))
        assert made.append.run().error is None
    meeting, real, first = threading.Barrier(2, timeout=60), upsert_work.merge_once, set()

    def together(lake, current, run_id, *, loaded_before):
        if current.contract.table not in first:
            first.add(current.contract.table)
            meeting.wait()
        return real(lake, current, run_id, loaded_before=loaded_before)

    monkeypatch.setattr(upsert_work, "merge_once", together)
    work = UpsertWork(lakehouse.open_lake(), "test", ())
    reports = serve(
        work,
        [made.current.contract for made in several],
        Lane(poll="1s", linger="1m"),
        report_every=timedelta(0),
        called_away=lambda: None,
        log=lambda _: None,
    )
    early = [next(reports) for _ in several]
    assert {report.outcome.table for report in early} == {made.name for made in several}
    for made in several:
        assert made.rows() == {1: "c", 2: "b"}
    several[1].send((2, None), (3, "d"))
    several[1].append.run()
    later = next(reports)
    assert (later.outcome.table, later.final) == (several[1].name, False)
    ada = Signature("ada", "a test", "replay-1")
    read = Selection(partition=0, first=0, upto=3)
    replay(lakehouse.lake, several[0].append.contract, read, ada, quarantine=False)
    corrected = next(reports).outcome
    assert (corrected.table, corrected.commits) == (several[0].name, 2), "the offsets are what they were"
    work.stop.set()
    final = {report.outcome.table: report.outcome for report in reports if report.final}
    assert {table: outcome.state for table, outcome in final.items()} == {m.name: "fresh" for m in several}
    assert [final[made.name].commits for made in several] == [2, 2]
    assert final[several[1].name].changes.deleted == 1
    assert [made.rows() for made in several] == [{1: "c", 2: "b"}, {1: "c", 3: "d"}]


def test_a_run_that_ends_when_level_does_not_follow_what_comes_meanwhile(lakehouse, monkeypatch):
    """Given more than one merge takes, when with each merge more comes, then the run ends once all that was there at
    its start is merged."""
    made, real = Upserted(lakehouse, partitions=1), merge_catch_up.merge_once
    made.both((1, "a"))
    made.send((1, "b"), (2, "c"), (3, "d"), (2, "e"))
    assert made.append.run().error is None

    def followed(*asked, **how):
        commit = real(*asked, **how)
        if commit is not None:
            made.send((9, str(commit.snapshot_id)))
            assert made.append.run().error is None
        return commit

    monkeypatch.setattr(plan_module, "LIMIT", 2)
    monkeypatch.setattr(merge_catch_up, "merge_once", followed)
    turns = iter(range(8))  # else it would go on for ever
    outcome = catch_up_merges(lakehouse.lake, made.current, "test", stop=lambda: next(turns, None) is None)
    assert (outcome.error, outcome.commits, outcome.state, outcome.lag_records) == (None, 2, "lagging", 2)
    assert made.rows() == {1: "b", 2: "e", 3: "d"}


def test_a_session_that_another_table_has_lost_fails_no_merge(lakehouse, monkeypatch):
    """Given a merge under way, when the session is made anew because a call of another table lost it, be it while events are
    read or between counting and writing, then the merge ends all the same."""
    made, lake = Upserted(lakehouse, partitions=1), lakehouse.open_lake()
    made.both((1, "a"), (2, "b"))

    def merged_though_lost_at(module, step, *events):
        real, turns = getattr(module, step), iter((lake.lose_spark,))

        def lost(*asked, **how):
            found = real(*asked, **how)
            next(turns, lambda: None)()
            return found

        made.send(*events)
        assert made.append.run().error is None
        with monkeypatch.context() as patch:
            patch.setattr(module, step, lost)
            made.merge(lake)
        assert next(turns, None) is None, "the merge never came there"
        return made.rows()

    assert merged_though_lost_at(batch, "_facts", (1, "c"), (3, "d")) == {1: "c", 2: "b", 3: "d"}
    assert merged_though_lost_at(stage, "tally_of", (1, "e"), (2, None)) == {1: "e", 3: "d"}
    lake.close()
