"""Rule: whatever is done to a table, in whatever order and killed wherever, each record is where a model says."""

import random

import pytest
from seeds import seed
from story import Story

ALWAYS = (
    ("load", "published"),
    ("mend", None),
    ("quarantine", "settling"),
    ("load", None),
    ("maintenance", "compacted"),
    ("rollback", "published"),
)
ANYTHING = (None,) * 40


@pytest.mark.random
@pytest.mark.parametrize(
    "steps", [ALWAYS, pytest.param(ANYTHING, marks=pytest.mark.long)], ids=["one", "any"]
)
def test_a_table_holds_what_the_model_holds_after_any_sequence(lakehouse, steps):
    """Given loads, replays, rollbacks, pauses, compaction, expiry and crashes, in one order or in any, then table, quarantine and ledger are the model after each, and the oracle agrees in the end."""
    story = Story(lakehouse, random.Random(seed()))
    story.send(8)
    story.send(1, only="strange")
    story.do(None, None)
    story.settle_on((story.everything_read(),))
    for step in steps:
        if step is None:
            story.live_at_random()
        else:
            story.live(*step)
    if story.paused:
        story.set_paused(False)
    story.do(None, None)
    story.settle_on((story.everything_read(),))
    verdict = story.table.holds_everything()
    assert (verdict.rows, verdict.quarantined) == (len(story.now.rows), len(story.now.waiting)), story
    assert story.died, story
    if steps is ALWAYS:
        assert story.died == [step for step, point in ALWAYS if point], story
