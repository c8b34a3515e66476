"""Rules of asking: every decision has a reason, no run is asked for twice, an outage heals, a stop is not hammered."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.cadence.request import (
    RECENT,
    SHARED,
    Runs,
    Seen,
    Trouble,
    ask,
    backoff,
    mark_of,
    why_another_topic,
    why_not_asked,
)
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.states import OUTAGES, STATES

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def contract(name="orders", **keys):
    return Contract.model_validate({"topic": name, "table": f"shop.{name}", **keys})


def topic(name="orders", end=10, topic_id="t"):
    return Topic(name, "c", topic_id, {0: 0}, {0: end}, {0: end})


def seen(name="orders", *, end=10, committed=0, ago=0.0, **keys):
    sightings = [Sighting(NOON - timedelta(seconds=ago), {0: end})]
    return Seen(contract(name), topic(name, end), {0: committed}, sightings=sightings, topic_id="t", **keys)


def decision(*tables, runs=None):
    return ask(tables, runs or Runs(), NOON)


def test_a_table_is_due_when_its_oldest_record_nears_the_target_and_the_run_has_time_to_start():
    assert decision(seen(ago=30)).tables == ()
    assert decision(seen(ago=30)).reason == "shop.orders: 10 records wait, due in 17 s"
    assert decision(seen(ago=47)).tables == ("shop.orders",)


def test_a_full_batch_is_due_at_once():
    full = Seen(contract(ingest={"max_records": 10}), topic(), {0: 0}, sightings=[Sighting(NOON, {0: 10})])
    assert decision(full).due == ("shop.orders",)


def test_tables_that_a_run_works_on_are_left_to_it():
    late = seen(ago=100)
    for runs in (Runs(kept={"shop.orders"}), Runs(lingering={"shop.orders"})):
        asked = decision(late, runs=runs)
        assert asked.tables == ()
        assert asked.reason == "1 served by a run"


def test_a_run_that_is_about_to_start_is_waited_for():
    asked = decision(seen(ago=100), runs=Runs(starting="abc"))
    assert (asked.tables, asked.reason) == ((), "run abc is about to start")
    asked = decision(seen(ago=100), runs=Runs(starting="abc", waits_for="def"))
    assert asked.reason == "run abc waits for run def, which ends when it has caught up"


def test_who_may_soon_have_records_is_served_along_even_from_a_run_that_will_make_room():
    late, waiting = seen("late", ago=100), seen("waiting", ago=1)
    active = seen("active", committed=10, active=NOON - timedelta(minutes=10))
    quiet = seen("quiet", committed=10, active=NOON - 2 * RECENT)
    clicked = seen("clicked", ago=100)
    asked = decision(
        late, waiting, active, quiet, clicked, runs=Runs(kept={"shop.clicked"}, lingering={"shop.waiting"})
    )
    assert asked.due == ("shop.late",)
    assert asked.tables == ("shop.active", "shop.late", "shop.waiting")


def test_a_table_that_cannot_be_looked_at_is_asked_for_by_nobody_and_drawn_into_no_run():
    lost = seen("lost", ago=100, fault="store_down")
    asked = decision(lost, seen("late", ago=100))
    assert asked.tables == ("shop.late",)
    assert decision(lost).reason == "shop.lost: store_down, looked at again in a moment"


def test_a_table_in_trouble_is_tried_again_without_tables_that_are_well():
    """Given a stopped table whose time has come beside one that is served well, when nothing else is due, then its run is its own."""
    again = seen("again", trouble=Trouble("schema_review", 1, NOON - timedelta(hours=1), "m"), mark="m")
    active = seen("active", committed=10, active=NOON - timedelta(minutes=1))
    assert decision(again, active).tables == ("shop.again",)
    assert decision(again, active, seen("late", ago=100)).tables == (
        "shop.active",
        "shop.again",
        "shop.late",
    )


def stopped(name, minutes, state="schema_review", failures=1, **keys):
    """A table that stopped so long ago and looks as it did then."""
    trouble = Trouble(state, failures, NOON - timedelta(minutes=minutes), "m")
    return seen(name, trouble=trouble, mark="m", **keys)


def test_stopped_tables_that_have_waited_half_their_time_are_tried_again_with_the_one_that_is_due():
    """Given tables that stopped at other times, when the time of one has come, then its run has those of the rest that need not wait much longer, each as one that is due; not those in an outage, paused, or in hand."""
    rest = (
        stopped("half", 5),
        stopped("early", 4),
        stopped("held", 15, "quality_blocked", 3),
        stopped("staged", 14, "quality_blocked", 3),
        stopped("served", 6),
        stopped("paused", 6, paused=True),
        stopped("lost", 6, fault="store_down"),
        seen("outage", trouble=Trouble("registry_down", 99, NOON - timedelta(seconds=59), "m"), mark="m"),
    )
    runs = Runs(lingering={"shop.served"})
    asked = decision(stopped("due", 11), *rest, runs=runs)
    assert asked.tables == ("shop.due", "shop.half", "shop.held")
    assert set(asked.due) == set(asked.tables)
    assert decision(*rest, runs=runs).tables == ()
    late = seen("late", ago=100)
    assert decision(late, *rest, runs=runs).tables == ("shop.late",), "stopped tables alone call one another"


def test_many_stopped_tables_ask_for_as_many_runs_as_one():
    """Given 10 tables that stopped at moments of their own, when they are tried again in vain for an hour, then soon all at once."""
    failed = {f"t{n}": NOON - timedelta(minutes=n) for n in range(10)}
    asked = []
    for tick in range(0, 3600, 5):
        now = NOON + timedelta(seconds=tick)
        tables = [seen(t, trouble=Trouble("schema_review", 1, at, "m"), mark="m") for t, at in failed.items()]
        if found := ask(tables, Runs(), now).tables:
            asked.append(len(found))
            failed |= {table.removeprefix("shop."): now + timedelta(seconds=10) for table in found}
    assert len(asked) <= 8
    assert asked[2:] == [10] * len(asked[2:])


def test_a_paused_table_is_never_asked_for():
    asked = decision(seen(ago=1000, paused=True))
    assert (asked.tables, asked.reason) == ((), "shop.orders: paused")


def test_a_stopped_table_waits_for_a_change_or_a_long_time():
    trouble = Trouble("topic_recreated", 3, NOON - timedelta(minutes=1), "as-it-was")
    same, changed = (
        seen(ago=1000, trouble=trouble, mark="as-it-was"),
        seen(ago=1000, trouble=trouble, mark="new"),
    )
    assert decision(same).tables == ()
    assert (
        decision(same).reason
        == "shop.orders: topic_recreated, tried again in 540 s or when something changes"
    )
    assert decision(changed).tables == ("shop.orders",)
    old = Trouble("topic_recreated", 3, NOON - timedelta(minutes=11), "as-it-was")
    assert decision(seen(ago=1000, trouble=old, mark="as-it-was")).tables == ("shop.orders",)


@given(st.sampled_from(STATES), st.integers(1, 1000))
def test_every_trouble_is_tried_again_within_ten_minutes_and_an_outage_within_one(state, failures):
    """But a batch that is held back is staged again at each try: ever more rarely."""
    wait = backoff(Trouble(state, failures, NOON))
    held = state in {"quality_blocked", "quarantine_flood"}
    assert timedelta(seconds=5) <= wait <= (timedelta(minutes=30) if held else timedelta(minutes=10))
    if state in OUTAGES:
        assert wait <= timedelta(minutes=1)
    assert wait <= backoff(Trouble(state, failures + 1, NOON))
    patient = backoff(Trouble(state, failures, NOON), timedelta(hours=1))
    assert patient == wait or (state not in SHARED and wait < patient <= timedelta(hours=1))
    assert why_not_asked(seen(trouble=Trouble(state, failures, NOON - wait)), NOON) is None


def test_a_stopped_table_calls_the_run_of_a_very_large_lane_away_less_often_until_it_changes():
    """Given a lane whose results may be told every half hour, then a stop is tried again after ten minutes, later as often, and at once when something about it changes."""
    half_an_hour = timedelta(minutes=30)
    waits = [backoff(Trouble("schema_review", n, NOON), half_an_hour) for n in (1, 2, 3, 99)]
    assert [each / timedelta(minutes=1) for each in waits] == [10, 20, 30, 30]
    again = Trouble("schema_review", 99, NOON - timedelta(minutes=20), "m")
    assert decision(seen(trouble=again, mark="m", patience=half_an_hour)).tables == ()
    assert decision(seen(trouble=again, mark="n", patience=half_an_hour)).tables == ("shop.orders",)
    assert decision(seen(trouble=again, mark="m")).tables == ("shop.orders",), "while no run lingers"


def test_a_topic_that_began_with_bad_records_is_tried_again_soon_and_then_ever_more_rarely():
    waits = [
        backoff(Trouble("misconfigured", failures, NOON)).total_seconds() for failures in (1, 2, 3, 5, 6, 99)
    ]
    assert waits == [30, 60, 120, 480, 600, 600]


def test_a_batch_that_is_held_back_is_staged_twice_an_hour_and_its_mended_producer_soon_read():
    waits = [
        backoff(Trouble("quality_blocked", failures, NOON)) / timedelta(minutes=1) for failures in range(1, 8)
    ]
    assert waits == [10, 20, 30, 30, 30, 30, 30]


def test_what_changes_a_mark_is_contract_topic_and_table():
    base = mark_of(contract().digest, "t", "table")
    assert base == mark_of(contract().digest, "t", "table")
    assert len({base, mark_of(contract(target_lag="2m").digest, "t", "table"), mark_of(contract().digest, "u", "table"),
                mark_of(contract().digest, "t", "other")}) == 4  # fmt: skip


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Seen(contract(), None, {0: 5}), "the topic is missing"),
        (Seen(contract(), topic(topic_id="u"), {0: 10}, topic_id="t"), "the topic was made anew"),
        (Seen(contract(), topic(end=3), {0: 10}, topic_id="t"), "the topic ends before the ledger"),
        (Seen(contract(), topic(), None, exists=False), "first load"),
        (Seen(contract(), topic(), None, fault="ledger_missing"), "ledger_missing"),
    ],
)
def test_what_is_not_as_it_was_is_asked_for_so_that_a_run_names_it(table, reason):
    asked = decision(table)
    assert (asked.tables, asked.reason) == (("shop.orders",), f"shop.orders: {reason}")


def test_a_topic_with_nothing_to_load_does_not_start_a_run_at_every_tick():
    empty = Seen(contract(), topic(end=0), None, exists=False, tried=NOON - timedelta(seconds=30))
    assert decision(empty).tables == ()
    filled = Seen(contract(), topic(end=5), None, exists=False, tried=NOON - timedelta(seconds=90))
    assert decision(filled).tables == ("shop.orders",)


def test_a_topic_whose_records_have_all_expired_has_nothing_to_load():
    """Given a table that was tried in vain, whatever the end of its topic is, then it waits for records beyond the log start."""
    for log_start in (5, 4):
        expired = Topic("orders", "c", "t", {0: log_start}, {0: 5}, {0: 5})
        asked = decision(Seen(contract(), expired, None, exists=False, tried=NOON - timedelta(minutes=2)))
        assert bool(asked.tables) is (log_start < 5)
        assert asked.lags["shop.orders"].records == 5 - log_start


def test_one_partition_that_ends_before_the_ledger_is_another_topic():
    """Given two partitions, when one has fewer records than were read, however many the other has, then a run
    is to name it."""
    cut = Topic("orders", "c", "t", {0: 0, 1: 0}, {0: 50, 1: 3}, {0: 50, 1: 3})
    why = "the topic ends before the ledger"
    assert why_another_topic(cut, "t", {0: 10, 1: 4}) == why_another_topic(cut, "t", {0: 10, 2: 1}) == why
    assert why_another_topic(cut, "t", {0: 50, 1: 3}) is None


def test_a_first_load_that_found_nothing_is_tried_again_once_records_wait_and_not_too_soon():
    """Given a try that ended some seconds ago, then records are waited for, and with them for the longest
    backoff of an outage; ten minutes later it is tried anyway."""
    for end, ago, due in ((5, 59, False), (5, 60, True), (0, 90, False), (0, 599, False), (0, 600, True)):
        tried = NOON - timedelta(seconds=ago)
        asked = decision(Seen(contract(), topic(end=end), None, exists=False, tried=tried))
        assert bool(asked.tables) is due, (end, ago)


def test_a_table_whose_ledger_is_missing_draws_none_into_its_run():
    """Given one that ended in a fault without a failed run beside one that is served well, then its run is
    its own."""
    faulty = seen("faulty", fault="ledger_missing")
    assert decision(faulty, seen("well", ago=1)).tables == ("shop.faulty",)


def test_a_table_that_was_not_read_yet_is_not_guessed_about():
    assert decision(Seen(contract(), topic(), None)).reason == "shop.orders: not read yet"


def test_reasons_name_three_tables_and_count_the_rest():
    reason = decision(*[seen(f"t{i}", ago=10) for i in range(8)]).reason
    assert reason.count("records wait") == 3
    assert "and 5 more" in reason
    assert len(decision(*[seen(f"t{i}", ago=100) for i in range(300)]).reason) < 300
