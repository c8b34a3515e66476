"""Rule: a run may die at any line of the commit path; the next one continues exactly."""

import random
import time

import pytest
from seeds import seed
from topics import ORDER, order

POISON = [(None, b"poison", 0)]
POINTS = ["branched", "staged", "quarantined", "published"]
"""A table of format 2 is published, tagged and tidied in one catalog commit."""
FORMAT_3_POINTS = ["published", "forwarded"]
"""PyIceberg cannot write format 3, so there Spark does it in three."""
ALIKE = [(["planned", "audited", "receipted"], 2), (["quarantined", "tagged", "dropped"], 3)]
"""The catalog holds there what it holds before the run or at a point beside it, but for a branch that is nobody's."""
NEWER = {**ORDER, "doc": "the same fields, another schema"}
PUBLISHED = {"published", "forwarded", "tagged", "dropped"}


MOMENTS = [0.2, 0.5, 1.0, 1.5]
"""Seconds within which a run is killed; a run takes about one, so that the first is alive whatever the dice say."""


@pytest.mark.parametrize(
    ("points", "format_version"),
    [
        (POINTS, 2),
        (FORMAT_3_POINTS, 3),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ALIKE),
    ],
)
def test_a_run_killed_at_a_named_point_is_continued_exactly(lakehouse, points, format_version):
    """Given a loaded table and a batch with poison, when the run is killed at each point in turn, then readers see all of it or nothing, and the next run completes it."""
    topic = lakehouse.cluster.topic("killed", 2)
    topic.send(range(100))
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    there = 100
    for turn, point in enumerate(points, 1):
        topic.send(range(there, there + 100))
        topic.send_raw(POISON)
        topic.send_tombstones(range(3))
        table.start(pause_at=point).dies()
        assert table.ids() == list(range(there + 100 if point in PUBLISHED else there)), point
        there += 110
        topic.send(range(there - 10, there))
        outcome = table.run()
        assert (outcome.state, outcome.error) == ("fresh", None), point
        assert table.ids() == list(range(there)), point
        assert table.holds_everything().quarantined == turn, point


def test_the_tag_follows_a_run_that_died_before_it_set_it(lakehouse):
    """Given a run that was killed behind its publishing, when the next one has nothing to read, then the tag alone tells of the ledger again, whatever expires."""
    topic = lakehouse.cluster.topic("untagged")
    topic.send(range(10))
    table = lakehouse.table(topic, format_version=3)
    table.run()
    topic.send(range(10, 20))
    table.start(pause_at="forwarded").dies()
    state = lakehouse.lake.state(table.name)
    assert state.tagged != state.receipt
    assert (table.run().commits, lakehouse.lake.state(table.name).tagged) == (0, state.receipt)


@pytest.mark.parametrize(
    "point", [pytest.param("branched", marks=pytest.mark.long), "receipted", "published"]
)
def test_a_first_load_killed_while_it_makes_the_table_is_continued_exactly(lakehouse, point):
    topic = lakehouse.cluster.topic(f"first_{point}", 2)
    topic.send(range(50))
    table = lakehouse.table(topic)
    table.start(pause_at=point).dies()
    assert table.run().state == "fresh"
    assert table.ids() == list(range(50))
    table.holds_everything()


def test_runs_killed_at_random_moments_lose_nothing(lakehouse):
    """Given small batches and traffic that goes on, when run after run is killed at a random moment, then the last one leaves everything in place once."""
    moments = random.Random(seed())
    topic = lakehouse.cluster.topic("random", 3)
    table = lakehouse.table(topic, ingest={"max_records": 400}, quarantine={"fail": 1.0})
    sent = alive = 0
    for latest in MOMENTS:
        topic.send(range(sent, sent + 600))
        topic.send_raw(POISON * 3)
        sent += 600
        run = table.start(pause_at="planned")
        run.reaches_its_pause()  # the start of the process, which is not the subject, lies behind
        run.release()
        time.sleep(moments.uniform(0.0, latest))
        alive += run.process.poll() is None
        run.kill()
    assert alive, "else nothing was killed"
    assert table.run().state == "fresh"
    assert table.ids() == list(range(sent))
    assert table.holds_everything().quarantined == 3 * len(MOMENTS)


@pytest.mark.long
def test_the_process_may_be_killed_again_and_again_before_it_publishes(lakehouse):
    """Given three runs that die after staging, when the fourth runs, then the dead attempts' rows are nowhere."""
    topic = lakehouse.cluster.topic("stubborn", 2)
    topic.send(range(80))
    topic.send_raw(POISON)
    table = lakehouse.table(topic)
    for point in ("staged", "receipted", "quarantined"):
        table.start(pause_at=point).dies()
    assert table.run().state == "fresh"
    assert table.ids() == list(range(80))
    assert table.holds_everything().quarantined == 1


def test_a_quarantine_row_of_a_dead_run_goes_when_its_record_can_be_read(lakehouse):
    """Given a run killed after the quarantine, when the registry has learnt the schema since, then the row is in the table alone."""
    topic = lakehouse.cluster.topic("learnt", 1)
    topic.send(range(30))
    table = lakehouse.table(topic)
    table.run()
    old = topic.schema
    elsewhere = lakehouse.cluster.topic("elsewhere", schema=NEWER)
    topic.schema_id, known = elsewhere.schema_id, topic.schema_id
    topic.send_raw([(b"k", topic.encode(order(30)), 0)])
    topic.schema_id = known
    table.start(pause_at="quarantined").dies()
    assert table.causes() == {"schema_not_allowed": 1}
    topic.use(NEWER)
    assert topic.schema_id == elsewhere.schema_id
    topic.use(old)
    assert table.run().state == "fresh"
    assert table.ids() == list(range(31))
    assert table.holds_everything().quarantined == 0
