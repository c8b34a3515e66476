"""The oracle of upsert tables is a map that a log is replayed into, and a log that fails is told as short as it can be."""

from current_state import UNKNOWN, Event, current
from cut_logs import cut_logs, least
from hypothesis import assume, given


def replayed(log):
    """One event after the other into a dictionary, as anyone would."""
    found = {}
    for event in log:
        if event.truncates:
            found.clear()
        elif event.value is None:
            found.pop(event.key, None)
        else:
            found[event.key] = found.get(event.key, UNKNOWN) if event.value == UNKNOWN else event.value
    return found


@given(cut_logs(by_source=False, unknowns=True))
def test_in_the_order_of_offsets_it_is_the_log_replayed(log):
    """Given a log whose keys stay in their partition, then its order within a key is that of the log."""
    told = log.until(3)
    assert current([*told, *log.batch(2)], by_source=False, unknowns=True) == replayed(told)


@given(cut_logs(by_source=True, unknowns=False))
def test_in_the_order_of_the_source_it_is_the_log_sorted(log):
    """Given that every delete brings its order, then the map is that of the log sorted by it; a truncation empties it."""
    told = [event for event in log.until(3) if event.ts is not None and not event.epoch]
    assert current(told, by_source=True) == replayed(sorted(told, key=lambda e: e.ts))
    first, last = (Event(0, 0, at, None, None, time=at, truncates=True) for at in (-1, 99))
    assert current([*told, first], by_source=True) == current(told, by_source=True)
    assert current([*told, last], by_source=True) == {}


@given(cut_logs(by_source=True, unknowns=False))
def test_a_log_that_fails_is_told_without_what_does_not_matter(log):
    def fails(tried):
        events = tried.until(3)
        return any(a.value is None and b.key == a.key for a in events for b in events if b.offset > a.offset)

    assume(fails(log))
    found = least(log, fails)
    assert fails(found)
    assert len(found.until(3)) == 2
    assert not any(found.again)
