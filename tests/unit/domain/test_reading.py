"""Rules of which tables a tick reads: each has its turn in time, few at once, and failing ones take nothing from others."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.reading import (
    READ_EVERY,
    READ_QUIET_EVERY,
    READ_TROUBLED_EVERY,
    READS,
    Known,
    quiet_every,
    to_read,
    witnessed,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLL = timedelta(seconds=5)
EVERY = st.sampled_from([READ_TROUBLED_EVERY, READ_EVERY, READ_QUIET_EVERY])


def known(
    n: int, every: timedelta, ago: float | None, *, lost: bool = False, changed: float | None = None
) -> Known:
    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else NOON - timedelta(seconds=seconds)

    return Known(f"t{n:03}", at(ago), at(changed), every, lost=lost)


@st.composite
def lanes(draw: st.DrawFn) -> list[Known]:
    ago = st.none() | st.floats(0, 900)
    drawn = draw(st.lists(st.tuples(EVERY, ago, st.booleans(), st.none() | st.floats(0, 900)), max_size=150))
    return [
        known(n, every, ago, lost=lost, changed=changed)
        for n, (every, ago, lost, changed) in enumerate(drawn)
    ]


@given(lanes(), st.booleans())
def test_a_tick_reads_few_tables_none_twice_and_only_stale_ones_or_a_witness(
    lane: list[Known], down: bool
) -> None:
    found = to_read(lane, NOON, POLL, catalog_down=down)
    stale = {each.table for each in lane if each.stale_since(NOON)}
    assert len(found) <= READS
    assert len(set(found)) == len(found)
    beside = [table for table in found if table not in stale]
    assert len(beside) <= 1
    if beside:
        by_table = {each.table: each for each in lane}
        assert found[0] == beside[0]
        assert not by_table[beside[0]].lost
        assert all(by_table[table].lost for table in found[1:])


@given(lanes())
def test_tables_that_cannot_be_read_keep_up_to_half_of_the_places_and_come_last(lane: list[Known]) -> None:
    found = to_read(lane, NOON, POLL, catalog_down=False)
    lost = {each.table for each in lane if each.lost}
    failing = [table for table in found if table in lost]
    again = sum(each.lost for each in lane if each.stale_since(NOON))
    assert len(failing) >= min(again, READS // 2) - 1, "a witness may take a place"
    if len(failing) < len(found):
        assert found[-len(failing) :] == failing or not failing


@given(st.lists(st.tuples(EVERY, st.floats(0, 300)), min_size=1, max_size=400))
def test_every_table_is_read_within_its_time_and_the_spread_of_one_turn(
    given_lane: list[tuple[timedelta, float]],
) -> None:
    """Given a lane whose tables were read at any times, when it ticks for a quarter of an hour, then none waits longer than its own time and one more of it."""
    every = [each for each, _ in given_lane]
    read = [NOON - timedelta(seconds=min(ago, each.total_seconds())) for each, ago in given_lane]
    if sum(POLL / max(each, READ_EVERY) for each in every) > READS / 2:
        return  # more than ticks have time for
    for tick in range(180):
        now = NOON + tick * POLL
        lane = [Known(f"t{n:03}", read[n], None, every[n], lost=False) for n in range(len(every))]
        for table in to_read(lane, now, POLL, catalog_down=False):
            read[int(table[1:])] = now
        late = [n for n, at in enumerate(read) if now - at > every[n] + max(every[n], READ_EVERY) + 2 * POLL]
        assert not late


def test_many_quiet_tables_are_spread_over_the_ticks() -> None:
    """Given 200 quiet tables that were all read at once, when their time is over, then a tick reads a few of them."""
    every = quiet_every(200, POLL)
    lane = [known(n, every, every.total_seconds()) for n in range(200)]
    assert 4 <= len(to_read(lane, NOON, POLL, catalog_down=False)) <= 6


def test_what_an_act_may_have_changed_is_read_first() -> None:
    lane = [known(0, READ_EVERY, 90), known(1, READ_QUIET_EVERY, 20, changed=10), known(2, READ_EVERY, 5)]
    assert to_read(lane, NOON, POLL, catalog_down=False) == ["t001", "t000"]


def test_a_lane_of_few_reads_its_quiet_tables_every_minute_and_one_of_many_every_five() -> None:
    assert quiet_every(10, POLL) == READ_EVERY
    assert quiet_every(1000, POLL) == READ_QUIET_EVERY


def test_a_readable_table_witnesses_for_the_catalog() -> None:
    assert witnessed(["a"], ["b", "a"], {"a"}, catalog_down=False) == ["b", "a"]
    assert witnessed(["a", "b"], ["b", "a"], {"a"}, catalog_down=True) == ["a", "b"]
    assert witnessed([], ["b", "a"], {"a"}, catalog_down=True) == ["b"]
    assert witnessed([], ["b", "a"], {"a"}, catalog_down=False) == []
    assert witnessed(["a"], ["a"], {"a"}, catalog_down=True) == ["a"]


def test_of_tables_that_may_have_changed_those_come_first_that_were_read_longest_ago() -> None:
    """Given ticks that have time for a few tables, when runs change all of them again and again, then none is passed over for its name."""
    lane = [known(n, READ_EVERY, ago=30.0 + n, changed=1.0) for n in range(4)]
    assert to_read(lane, NOON, POLL, catalog_down=False) == ["t003", "t002", "t001", "t000"]
