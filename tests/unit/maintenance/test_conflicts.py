"""Rule: a commit of maintenance that came too late is tried again a few times, counted, and never forced."""

import pytest

from tidemark.engine.maintain import conflicts as module
from tidemark.engine.maintain.conflicts import TRIES, Conflicts


class Losing:
    """Comes too late a number of times."""

    def __init__(self, times, says="CommitFailedException: branch main has changed"):
        self.left, self.says, self.asked = times, says, 0

    def __call__(self):
        self.asked += 1
        if self.left:
            self.left -= 1
            raise RuntimeError(self.says)
        return "done"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0)


@pytest.mark.parametrize(
    "says",
    [
        "ValidationException: found conflicting files",
        "Cannot commit",
        "Still referenced by refs",
        "main is not an ancestor of x",
    ],
)
def test_what_was_too_late_twice_succeeds_the_third_time(says):
    found, work = Conflicts(), Losing(TRIES - 1, says)
    assert found.tried("day=1", work) == "done"
    assert (found.count, found.gave_up, work.asked) == (TRIES - 1, [], TRIES)


def test_what_is_always_too_late_is_left_for_the_next_time_and_named():
    found, work = Conflicts(), Losing(99, "Cannot commit: it has changed\n\tat org.apache")
    assert found.tried("day=1", work) is None
    assert found.tried("day=2", Losing(0)) == "done"
    assert (found.count, work.asked) == (TRIES, TRIES)
    assert found.gave_up == ["day=1 is being changed by others; next time (Cannot commit: it has changed)"]


def test_every_other_error_passes_at_once():
    found, work = Conflicts(), Losing(1, "disk full")
    with pytest.raises(RuntimeError, match="disk full"):
        found.tried("day=1", work)
    assert (found.count, found.gave_up, work.asked) == (0, [], 1)
