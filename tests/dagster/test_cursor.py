"""Rule: the cursor is a cache; small, and worth nothing more than the time it saves."""

import hashlib
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensors.cursor import Cache, Entry, dump, parse
from tidemark.domain.cadence.lag import Sighting, measure
from tidemark.domain.cadence.request import Trouble
from tidemark.domain.states import STATES

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
times = st.none() | st.integers(0, 10**6).map(lambda s: NOON + timedelta(seconds=s))
offsets = st.dictionaries(st.integers(0, 5), st.integers(0, 10**12), max_size=6)
entries = st.builds(
    Entry,
    committed=st.none() | offsets,
    exists=st.booleans(),
    paused=st.booleans(),
    fault=st.none() | st.sampled_from(STATES),
    lost=times,
    unseen=times,
    topic_id=st.none() | st.text(max_size=22),
    mark=st.text(max_size=12),
    read_at=times,
    trouble=st.none()
    | st.builds(Trouble, st.sampled_from(STATES), st.integers(1, 99), st.just(NOON), st.text(max_size=12)),
    tried=times,
    active=times,
    grade=st.sampled_from(["fresh", "warn", "fail", None]),
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), entries, max_size=20),
    times,
    st.text(),
    st.dictionaries(st.text(max_size=36), st.just(NOON), max_size=3),
)
def test_what_is_dumped_is_parsed(tables, until, turn, ahead):
    cache = Cache(tables, until, turn=turn, ahead=ahead)
    assert parse(dump(cache)) == cache


def test_sightings_are_thinned_but_the_oldest_stays():
    sightings = [Sighting(NOON + timedelta(seconds=i), {0: 10 + i, 1: 7}) for i in range(50)]
    tables = {f"t{n}": Entry({0: 5}, sightings=sightings) for n in range(50)}
    kept = parse(dump(Cache(tables))).tables["t7"].sightings
    assert kept[0] == sightings[0]
    assert all(each in sightings for each in kept)
    assert len(kept) <= 4


def test_with_very_many_tables_the_age_of_the_oldest_waiting_record_is_kept():
    committed, later = {0: 5, 1: 5}, NOON + timedelta(seconds=30)
    seen = [Sighting(NOON, {0: 5, 1: 9}), Sighting(later, {0: 99, 1: 99})]
    tables = {f"t{n}": Entry(committed, sightings=seen) for n in range(300)}
    kept = parse(dump(Cache(tables))).tables["t7"].sightings
    assert measure(committed, {0: 99, 1: 99}, kept, later) == measure(committed, {0: 99, 1: 99}, seen, later)


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", "7", '{"v":2}', '{"v":1,"u":null,"l":null,"t":7}', "zzzz", "z", "z{}",
             '{"v":1,"u":null,"l":null,"t":{"a":{"e":["no_such_state",1,1,""]}}}', '{"v":1,"u":1e99,"l":null,"t":{}}']
)  # fmt: skip
def test_a_lost_or_damaged_cursor_is_an_empty_cache(text):
    assert parse(text) == Cache()


def test_three_hundred_busy_tables_fit_into_what_the_event_budget_allows():
    def offsets_of(n):
        return {p: random.randrange(n * 10**7, n * 10**7 + 10**6) for p in range(12)}

    tables = {}
    for n in range(300):
        committed = offsets_of(n)
        end = {p: o + random.randrange(1000) for p, o in committed.items()}
        digest = hashlib.sha256(str(n).encode()).hexdigest()
        tables[f"namespace.some_table_{n}"] = Entry(
            committed, topic_id=digest[:8], mark=digest[8:16], read_at=NOON, sightings=[Sighting(NOON, end)] * 3,
            tried=NOON, active=NOON, observed_at=NOON, observed=sum(end.values()), lagged=True, grade="fresh",
        )  # fmt: skip
    assert len(dump(Cache(tables))) < 29_000
