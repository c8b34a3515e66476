"""Rule: whatever is done to a table, in whatever order and killed wherever, each record is where a model says."""

import random

import pytest
from seeds import seed
from story import Story

POINTS = (
    "planned",
    "branched",
    "staged",
    "audited",
    "receipted",
    "publishing",
    "published",
    "tagged",
    "dropped",
    "settling",
    "settled",
    "quarantined",
    "compaction_planned",
    "compacted",
    "expiry_planned",
    "expired",
)


@pytest.mark.random
@pytest.mark.parametrize("length", [4, pytest.param(40, marks=pytest.mark.long)])
def test_a_table_holds_what_the_model_holds_after_any_sequence(lakehouse, length):
    """Given loads, replays, rollbacks, pauses, compaction, expiry and crashes in random order, then table, quarantine and ledger are the model after each, and the oracle agrees in the end."""
    story = Story(lakehouse, random.Random(seed()))
    story.send(8)
    story.do(None, None)
    story.settle_on((story.everything_read(),))
    for _ in range(length):
        story.live(POINTS)
    if story.paused:
        story.set_paused(False)
    story.do(None, None)
    story.settle_on((story.everything_read(),))
    verdict = story.table.holds_everything()
    assert (verdict.rows, verdict.quarantined) == (len(story.now.rows), len(story.now.waiting)), story
