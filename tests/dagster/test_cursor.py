"""Rule: the cursor is a cache; small, and worth nothing more than the time it saves."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensors.cursor import Cache, Entry, dump, parse
from tidemark.domain.lag import Sighting
from tidemark.domain.request import Trouble
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
    topic_id=st.none() | st.text(max_size=22),
    mark=st.text(max_size=12),
    read_at=times,
    trouble=st.none()
    | st.builds(Trouble, st.sampled_from(STATES), st.integers(1, 99), st.just(NOON), st.text(max_size=12)),
    tried=times,
    active=times,
    grade=st.sampled_from(["fresh", "warn", "fail", None]),
)


@given(st.dictionaries(st.text(min_size=1, max_size=20), entries, max_size=20), times)
def test_what_is_dumped_is_parsed(tables, until):
    cache = Cache(tables, until)
    assert parse(dump(cache)) == cache


def test_sightings_are_thinned_but_the_oldest_stays():
    sightings = [Sighting(NOON + timedelta(seconds=i), {0: 10 + i}) for i in range(50)]
    kept = parse(dump(Cache({"t": Entry({0: 5}, sightings=sightings)}))).tables["t"].sightings
    assert kept[0] == sightings[0]
    assert len(kept) <= 4


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", "7", '{"v":2}', '{"v":1,"u":null,"l":null,"t":7}', "zzzz", "z", "z{}",
             '{"v":1,"u":null,"l":null,"t":{"a":{"e":["no_such_state",1,1,""]}}}', '{"v":1,"u":1e99,"l":null,"t":{}}']
)  # fmt: skip
def test_a_lost_or_damaged_cursor_is_an_empty_cache(text):
    assert parse(text) == Cache()


def test_three_hundred_tables_fit_into_a_few_kilobytes():
    tables = {
        f"namespace.some_table_{n}": Entry(
            {p: 10**9 + n * p for p in range(12)}, topic_id="aIpw6k7ERGu+dGBN+RxpiQ", mark="4d3bf8fa6823",
            read_at=NOON, sightings=[Sighting(NOON, {p: 10**9 + n * p + 5 for p in range(12)})],
            tried=NOON, active=NOON, observed_at=NOON, observed=10**10,
        )
        for n in range(300)
    }  # fmt: skip
    assert len(dump(Cache(tables))) < 40_000
