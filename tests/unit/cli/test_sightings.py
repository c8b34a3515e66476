"""The cache of looks: enough to know how old what waits is, and harmless when it is gone."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.lag import measure
from tidemark.domain.ledger.guard import Topic
from tidemark.engine.look.sightings import FILE, KEEP, Memory, read, write

BEGAN = datetime(2026, 11, 20, tzinfo=UTC)


def topic(end: int, high: int | None = None) -> Topic:
    return Topic("t", "c", "i", {0: 0}, {0: end}, {0: end if high is None else high})


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_equal_ends_are_one_look_that_lasts() -> None:
    memory = Memory().with_look(topic(5), {0: 5}, at(0)).with_look(topic(5), {0: 5}, at(10))
    assert [(look.first, look.last) for look in memory.looks] == [(at(0), at(10))]
    assert memory.published_until({0: 5}) == at(10)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_the_oldest_waiting_look_is_never_forgotten(growth: list[int]) -> None:
    """However many looks come, lag is as old as the first that saw what waits; and few are kept."""
    memory, end, first = Memory(), 0, None
    for second, more in enumerate(growth):
        end += more
        memory = memory.with_look(topic(end), {0: 0}, at(second))
        first = second if first is None and end else first
    assert len(memory.looks) <= KEEP
    lag = measure({0: 0}, {0: end}, memory.sightings(), at(100))
    assert lag.seconds == (0 if first is None else 100 - first)


def test_looks_at_a_topic_that_was_made_anew_since_say_nothing_of_this_one() -> None:
    """Given a topic of which all was published, when it is deleted and made anew, then what waits is no older than that."""
    memory = Memory().with_look(topic(1000), {0: 1000}, at(0)).with_look(topic(40), {0: 40}, at(500))
    memory = memory.with_look(topic(41), {0: 40}, at(510))
    assert measure({0: 40}, {0: 41}, memory.sightings(), at(512)).seconds == 2
    assert memory.published_until({0: 40}) == at(500)


def test_a_transaction_is_held_since_the_end_stands_still() -> None:
    memory = Memory().with_look(topic(5, 9), {0: 5}, at(0)).with_look(topic(5, 9), {0: 5}, at(30))
    assert memory.held == at(0)
    assert memory.with_look(topic(7, 9), {0: 5}, at(40)).held == at(40)
    assert memory.with_look(topic(9, 9), {0: 5}, at(40)).held is None


def test_the_file_gives_back_what_was_written(tmp_path: Path) -> None:
    memory = Memory().with_look(topic(5, 9), {0: 3}, at(0)).with_look(topic(6, 9), {0: 3}, at(30))
    write(tmp_path, {"shop.orders": memory})
    assert read(tmp_path) == {"shop.orders": memory}


def test_a_lost_or_damaged_file_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
    for text in ("", "{", "[]", '{"version": 99}', '{"version": 1, "tables": {"t": 3}}'):
        (tmp_path / FILE).write_text(text)
        assert read(tmp_path) == {}
    write(tmp_path / "nowhere", {})
