"""Rules of a run that serves a lane: drain, keep to the target lag, linger, make room; one table never stops another."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Event

import pytest
from commits import one_commit

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.outcome import Outcome
from tidemark.engine.lane.serve import Clock, catch_up_all, longest_without, serve
from tidemark.engine.lane.served_table import Standing

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Inline(ThreadPoolExecutor):
    """Runs what is submitted at once, in the caller's thread."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future


class World(Clock):
    """Topics that grow, tables that follow, and a clock that moves only when the run rests."""

    def __init__(self, growth=None):
        self.at = NOON
        self.growth = growth or {}
        self.ends = {}
        self.committed = {}
        self.commits = []
        self.trouble = {}
        self.paused = set()
        self.topic_ids = {}
        self.blind = 0
        self.unseen = {}
        self.interrupted = False
        self.stop = Event()

    def now(self):
        return self.at

    def rest(self, busy, stop, seconds):  # noqa: ARG002
        seconds = 0.1 if busy else seconds  # what was submitted is done already
        self.at += timedelta(seconds=seconds)
        for topic, per_second in self.growth.items():
            self.ends[topic] = self.ends.get(topic, 0) + per_second * seconds

    def workers(self, parallel):
        return Inline(parallel)

    def look(self, cluster, topics):
        if self.blind:
            self.blind -= 1
            raise Outage("kafka_down", "-", "no answer", cluster=cluster)
        return {t: self.unseen.get(t) or self._topic(t) for t in topics if t in self.ends}

    def _topic(self, name):
        end = {0: int(self.ends[name])}
        return Topic(name, "c", self.topic_ids.get(name, "id"), {0: 0}, end, end)

    def standing(self, contract):
        return Standing(self.committed.get(contract.table), contract.table in self.paused)

    def microbatch(self, contract):
        trouble = self.trouble.get(contract.table)
        if trouble:
            raise trouble.pop(0) if isinstance(trouble, list) else trouble
        start = self.committed.get(contract.table, {0: 0})
        end = min(int(self.ends[contract.topic]), start[0] + contract.ingest.max_records)
        if end == start[0] or contract.table in self.paused:
            self.committed[contract.table] = start
            return None
        self.committed[contract.table] = {0: end}
        count = Counts(end - start[0], end - start[0])
        self.commits.append(((self.at - NOON).total_seconds(), contract.table, count.read))
        return one_commit(
            contract.table,
            snapshot_id=len(self.commits),
            from_=start,
            next={0: end},
            counts={0: count},
            schema_ids=frozenset({1}),
            max_timestamp=self.at,
            seconds={"stage": 0.5},
            at=self.at,
        )

    def catch_up(self, contract):
        return Outcome(contract.table, "fresh", commits=1, rows=self.microbatch(contract).rows)

    def summarise(self, contract, done):  # noqa: ARG002
        return replace(done, state=done.error["state"] if done.error else "fresh")

    def interrupt(self):
        self.interrupted = True


def contract(name, **keys):
    return Contract.model_validate({"topic": name, "table": f"shop.{name}", **keys})


def lane(**keys):
    return Lane.model_validate({"poll": "1s", "linger": "30s", "max_run": "5m", **keys})


def run(
    world,
    contracts,
    *,
    rules=None,
    called_away=lambda: None,
    every=timedelta(minutes=1),
    seen=None,
    told=None,
    log=lambda _: None,
):
    reports = serve(
        world, contracts, rules or lane(), report_every=every,
        called_away=called_away, log=log, first_seen=seen, last_results=told, clock=world,
    )  # fmt: skip
    everything = list(reports)
    return [r.outcome for r in everything if r.final], [r.outcome for r in everything if not r.final]


def test_a_backlog_is_drained_at_once_in_full_batches_and_what_is_left():
    world = World()
    world.ends["orders"] = 2500
    final, _ = run(world, [contract("orders", ingest={"max_records": 1000})])
    assert [n for _, _, n in world.commits] == [1000, 1000, 500]
    assert world.commits[-1][0] < 10
    assert (final[0].state, final[0].commits, final[0].rows.written) == ("fresh", 3, 2500)


def test_ten_records_a_second_make_about_one_snapshot_a_minute():
    world = World(growth={"orders": 10})
    world.ends["orders"] = 0
    run(world, [contract("orders", target_lag="1m")], rules=lane(max_run="10m"))
    assert 9 <= len(world.commits) <= 13
    gaps = [b[0] - a[0] for a, b in zip(world.commits[1:], world.commits[2:], strict=False)]
    assert all(50 <= gap <= 60 for gap in gaps)


@pytest.mark.parametrize("every", ["1s", "5s", "30s"])
def test_a_batch_that_reads_further_than_the_run_has_looked_is_not_followed_by_another(every):
    """Given records that come while a run does not look, when a batch takes them too, then the next one is made when it is due."""
    world = World(growth={"orders": 10})
    world.ends["orders"] = 0
    run(world, [contract("orders", target_lag="1m")], rules=lane(poll=every, max_run="10m"))
    gaps = [b[0] - a[0] for a, b in zip(world.commits[1:], world.commits[2:], strict=False)]
    assert len(gaps) >= 5
    assert all(gap >= 50 for gap in gaps)


def test_a_run_publishes_a_table_that_it_took_along_when_it_is_due():
    """Given records that wait for 40 s and a target of a minute, when a run begins with another table, then they are published in 17 s."""
    world = World()
    world.ends = {"late": 5, "early": 5, "new": 5}
    world.committed = {"shop.late": {0: 2}, "shop.early": {0: 2}}
    seen = {"shop.early": NOON - timedelta(seconds=40)}
    run(world, [contract(name, target_lag="1m") for name in world.ends], seen=seen)
    at = {table: (seconds, records) for seconds, table, records in world.commits}
    assert at["shop.late"][0] <= 1
    assert at["shop.new"][0] <= 1
    assert at["shop.early"][1] == 3
    assert 15 <= at["shop.early"][0] <= 18


def test_a_full_batch_of_a_table_that_was_taken_along_waits_for_nothing():
    world = World()
    world.ends["orders"] = 2500
    world.committed["shop.orders"] = {0: 500}
    orders = contract("orders", target_lag="1m", ingest={"max_records": 1000})
    run(world, [orders], seen={"shop.orders": NOON})
    assert [n for _, _, n in world.commits] == [1000, 1000]
    assert world.commits[-1][0] < 10


def test_a_table_that_does_not_say_where_it_stands_is_asked_by_a_batch():
    """Given a catalog that fails once, when a run has taken a table along, then its records are published all the same."""
    world, answers = World(), [Outage("catalog_down", "-", "no answer")]
    world.ends["orders"] = 5
    original = world.standing

    def standing(contract):
        if answers:
            raise answers.pop()
        return original(contract)

    world.standing = standing
    final, _ = run(world, [contract("orders")], seen={"shop.orders": NOON})
    assert [n for _, _, n in world.commits] == [5]
    assert final[0].state == "fresh"


def test_a_lingering_run_looks_once_when_what_it_reads_is_no_longer_the_same():
    """Given an append table that is replayed, which no offset shows, when a run lingers, then it looks, once per change."""
    world, looks = World(), []
    world.ends["orders"] = 5
    original, batch = world.rest, world.microbatch

    def rest(busy, stop, seconds):
        original(busy, stop, seconds)
        since = (world.at - NOON).total_seconds()
        world.topic_ids["orders"] = "id/replayed" if 10 <= since < 20 else "id"

    def microbatch(contract):
        looks.append((world.at - NOON).total_seconds())
        return batch(contract)

    world.rest, world.microbatch = rest, microbatch
    run(world, [contract("orders")])
    assert len(looks) <= 5, "the first look, what it finds, the replay, and that it is over"
    assert any(10 <= at <= 12 for at in looks)


def test_a_quiet_lane_lets_the_run_end_after_linger():
    world = World()
    world.ends["orders"] = 5
    run(world, [contract("orders")])
    assert timedelta(seconds=30) <= world.at - NOON <= timedelta(seconds=35)


@pytest.mark.parametrize("seen", [None, {"shop.orders": NOON}], ids=["due", "taken along"])
def test_a_topic_of_which_no_table_can_be_made_is_tried_once_until_records_come(seen):
    """Given a topic whose records have all expired and that has no schema, then a run tries it once, lingers as over any that is level, and knows no offsets of a table that is not there; a record that comes is loaded."""
    world, tried = World(), []
    world.ends["orders"] = 100
    original, batch = world.rest, world.microbatch

    def microbatch(contract):
        tried.append(contract.table)
        return batch(contract) if world.ends["orders"] > 100 else None

    def rest(busy, stop, seconds):
        original(busy, stop, seconds)
        if arrives and world.at >= arrives:
            world.ends["orders"] = 101

    world.microbatch, world.rest, arrives = microbatch, rest, None
    [outcome], _ = run(world, [contract("orders", target_lag="10s")], seen=seen)
    assert len(tried) == 1
    assert world.at - NOON < timedelta(seconds=45)
    assert (outcome.next, outcome.lag_records, outcome.commits) == ({}, 0, 0)
    world.at, arrives = NOON, NOON + timedelta(seconds=20)
    [outcome], _ = run(world, [contract("orders", target_lag="10s")], seen=seen)
    assert (len(tried), outcome.commits) == (3, 1)


def test_records_that_come_while_the_run_lingers_are_published_within_their_target():
    world = World()
    world.ends["orders"] = 5
    arrives = NOON + timedelta(seconds=20)
    original = world.rest

    def rest(busy, stop, seconds):
        original(busy, stop, seconds)
        if world.at >= arrives:
            world.ends["orders"] = 6

    world.rest = rest
    run(world, [contract("orders", target_lag="10s")])
    assert [n for _, _, n in world.commits] == [5, 1]
    assert 20 <= world.commits[1][0] <= 31


def test_a_table_in_a_hurry_is_looked_at_more_often_than_its_lane_polls():
    world = World(growth={"orders": 10})
    world.ends["orders"] = 0
    run(world, [contract("orders", target_lag="2s")], rules=lane(poll="5s", max_run="1m"))
    gaps = [b[0] - a[0] for a, b in zip(world.commits[1:], world.commits[2:], strict=False)]
    assert len(gaps) > 20
    assert all(0.5 <= gap <= 2 for gap in gaps)


def test_without_linger_the_run_ends_when_it_has_caught_up():
    world = World()
    world.ends["orders"] = 5
    run(world, [contract("orders")], rules=lane(linger="0s"))
    assert world.at - NOON <= timedelta(seconds=3)
    assert len(world.commits) == 1


def test_a_busy_run_ends_at_max_run():
    world = World(growth={"orders": 100})
    world.ends["orders"] = 0
    said = []
    run(world, [contract("orders", target_lag="5s")], rules=lane(max_run="2m"), log=said.append)
    assert [why.rpartition(": ")[2] for why in said] == ["max_run is over"]
    assert timedelta(minutes=2) <= world.at - NOON <= timedelta(seconds=123)


def test_the_run_makes_room_within_seconds_when_another_is_queued():
    world = World(growth={"orders": 100})
    world.ends["orders"] = 0
    queued_at = NOON + timedelta(seconds=20)
    run(
        world,
        [contract("orders", target_lag="5s")],
        called_away=lambda: "run x is queued" if world.at >= queued_at else None,
    )
    assert world.at - queued_at <= timedelta(seconds=4)


def test_a_run_that_is_called_away_at_once_or_has_a_stopped_table_still_serves_every_table_once():
    world = World()
    world.ends = {"a": 5, "b": 5, "c": 5}
    run(
        world,
        [contract(name) for name in "abc"],
        rules=lane(parallel=1),
        called_away=lambda: "run x is queued",
    )
    assert world.committed == {"shop.a": {0: 5}, "shop.b": {0: 5}, "shop.c": {0: 5}}
    assert world.at - NOON <= timedelta(seconds=5)


def test_a_stopped_table_leaves_the_others_published_and_is_reported_at_once():
    world = World()
    world.ends = {"bad": 5, "good": 5}
    world.trouble["shop.bad"] = Stopped("topic_recreated", "shop.bad", "")
    final, _ = run(world, [contract("bad"), contract("good")])
    states = {each.table: each.state for each in final}
    assert states == {"shop.bad": "topic_recreated", "shop.good": "fresh"}
    assert world.committed["shop.good"] == {0: 5}
    assert world.at - NOON < timedelta(seconds=5)


def test_a_stopped_table_among_many_first_loads_does_not_end_the_run_before_each_had_its_turn():
    """Given more first loads than a run makes in a quarter of a minute and one that stops, when run, then all are loaded."""
    world = World()
    names = [f"t{n:03}" for n in range(200)]
    world.ends = dict.fromkeys(names, 5)
    world.trouble["shop.t000"] = Stopped("topic_recreated", "shop.t000", "")
    final, _ = run(world, [contract(name) for name in names], rules=lane(parallel=1))
    assert world.at - NOON > timedelta(seconds=15), "not all of them were waiting at once"
    assert {each.table for each in final if not each.commits} == {"shop.t000"}


def test_of_many_first_loads_those_in_a_hurry_come_first():
    world = World()
    world.ends = dict.fromkeys("abcd", 5)
    lags = {"a": "10m", "b": "10m", "c": "30s", "d": "10m"}
    run(world, [contract(name, target_lag=lag) for name, lag in lags.items()], rules=lane(parallel=1))
    assert [table for _, table, _ in world.commits].index("shop.c") <= 1


def test_runs_that_end_before_all_had_their_turn_begin_with_those_that_had_none():
    """Given more long backlogs than a run has time for, some of tables in less of a hurry, when runs follow one another, then none is left out twice."""
    world, told = World(), {}
    lags = {f"t{n:02}": "1m" if n < 50 else "1h" for n in range(60)}
    world.ends = dict.fromkeys(lags, 100_000)
    tables = [contract(name, target_lag=lag, ingest={"max_records": 1000}) for name, lag in lags.items()]
    served = []
    for _ in range(6):
        before = len(world.commits)
        run(world, tables, rules=lane(parallel=1, max_run="4s"), told=told)
        served.append({table for _, table, _ in world.commits[before:]})
        assert 30 <= len(served[-1]) < 60
        told |= dict.fromkeys(served[-1], world.at)
        world.at += timedelta(seconds=2)
    assert all(len(one | following) == 60 for one, following in pairwise(served))


def test_a_run_takes_tables_that_are_not_due_after_those_that_are_however_long_they_were_quiet():
    world = World()
    world.ends = dict.fromkeys("ab", 5)
    told = {"shop.a": NOON - timedelta(days=1), "shop.b": NOON}
    first, standing = [], world.standing
    world.standing = lambda each: first.append(each.table) or standing(each)
    tables = [contract(name) for name in "ab"]
    run(world, tables, rules=lane(parallel=1, max_run="1s"), seen={"shop.a": NOON}, told=told)
    assert world.commits[0][:2] == (0, "shop.b")
    assert first == ["shop.a"]


def test_long_backlogs_do_not_starve_the_others():
    """Given as many long backlogs as batches that run at once, when records trickle into another table, then it has its turn after each of their batches."""
    world = World(growth={"quick": 10})
    world.ends = {"big1": 100_000, "big2": 100_000, "quick": 0}
    big = {"ingest": {"max_records": 1000}, "target_lag": "1s"}
    tables = [contract("big1", **big), contract("big2", **big), contract("quick", target_lag="1s")]
    run(world, tables, rules=lane(parallel=2, max_run="20s", linger="1s"))
    times = [0.0, *(at for at, table, _ in world.commits if table == "shop.quick")]
    assert len(times) > 5
    assert max(b - a for a, b in pairwise(times)) <= 3


def test_an_outage_is_tried_again_inside_the_run():
    world = World()
    world.ends["orders"] = 5
    world.trouble["shop.orders"] = [Outage("spark_down", "shop.orders", "") for _ in range(2)]
    final, _ = run(world, [contract("orders")])
    assert final[0].state == "fresh"
    assert world.committed["shop.orders"] == {0: 5}


def test_an_outage_that_stays_ends_the_run_by_its_name():
    world = World()
    world.ends["orders"] = 5
    world.trouble["shop.orders"] = Outage("spark_down", "shop.orders", "")
    final, _ = run(world, [contract("orders")])
    assert final[0].state == "spark_down"
    assert world.at - NOON < timedelta(seconds=20)


def test_a_run_that_makes_room_amid_an_outage_says_so_of_every_table_that_met_it():
    """Given two tables whose first attempts met an outage, when the run is called away before it gives them up, then neither counts as one that had no turn; one that recovered does not say so."""
    world = World()
    world.ends = {"orders": 5, "clicks": 5, "views": 5}
    for table, times in (("orders", 99), ("clicks", 99), ("views", 1)):
        world.trouble[f"shop.{table}"] = [Outage("spark_down", f"shop.{table}", "")] * times
    leave = NOON + timedelta(seconds=5)
    tables = [contract(each) for each in world.ends]
    final, _ = run(world, tables, called_away=lambda: "run x is queued" if world.at >= leave else None)
    assert {each.table: each.state for each in final} == {
        "shop.orders": "spark_down", "shop.clicks": "spark_down", "shop.views": "fresh"
    }  # fmt: skip


def test_a_broker_that_does_not_answer_for_a_moment_is_no_failure():
    world = World(growth={"orders": 1})
    world.ends["orders"] = 5
    world.blind = 2
    final, _ = run(world, [contract("orders", target_lag="5s")], rules=lane(max_run="30s"))
    assert final[0].state == "fresh"
    world.blind = 99
    final, _ = run(world, [contract("orders")])
    assert final[0].state == "kafka_down"


def test_a_topic_that_cannot_be_seen_stops_its_own_table_alone():
    """Given a topic that is refused beside one that is not, when a run serves both, then only the first stops."""
    world = World()
    world.ends |= {"orders": 5, "secret": 5}
    world.unseen["secret"] = Stopped("permission_denied", "-", "")
    world.trouble["shop.secret"] = Stopped("permission_denied", "shop.secret", "")
    final, _ = run(world, [contract("orders"), contract("secret")])
    assert {each.table: (each.state, each.rows.read) for each in final} == {
        "shop.orders": ("fresh", 5),
        "shop.secret": ("permission_denied", 0),
    }


def test_looks_that_take_long_leave_half_of_the_time_for_batches():
    """Given tables that take 9 s to be looked at, when many wait, then batches are made between two looks."""
    world, names = World(), [f"t{n:02}" for n in range(60)]
    world.ends = dict.fromkeys(names, 5)
    original = world.look

    def look(cluster, topics):
        world.at += timedelta(seconds=9)
        return original(cluster, topics)

    world.look = look
    run(world, [contract(name) for name in names], rules=lane(parallel=1, max_run="30s"))
    assert len(world.commits) == 60
    assert world.commits[-1][0] < 20


def test_a_hurry_does_not_shorten_the_patience_with_a_broker():
    """Given a table in a hurry, when its cluster does not answer, then it is asked as often as the lane says before it is given up."""
    world, asked = World(growth={"orders": 10}), []
    world.ends["orders"] = 0
    original = world.look

    def look(cluster, topics):
        asked.append(world.at - NOON)
        world.blind = int(world.at - NOON >= timedelta(seconds=10))
        return original(cluster, topics)

    world.look = look
    final, _ = run(world, [contract("orders", target_lag="2s")], rules=lane(poll="5s", max_run="2m"))
    assert final[0].error["state"] == "kafka_down"
    unanswered = [at for at in asked if at >= timedelta(seconds=10)]
    assert all(b - a >= timedelta(seconds=5) for a, b in pairwise(unanswered))
    assert len(unanswered) >= 3


def test_a_paused_table_is_left_alone_and_the_others_are_served():
    world = World()
    world.ends = {"one": 5, "two": 5}
    world.paused = {"shop.one"}
    run(world, [contract("one"), contract("two")])
    assert {t for _, t, _ in world.commits} == {"shop.two"}
    assert world.at - NOON < timedelta(seconds=35)


def test_a_lane_whose_only_table_is_paused_lets_the_run_end():
    world = World(growth={"one": 1})
    world.ends, world.paused = {"one": 5}, {"shop.one"}
    run(world, [contract("one")])
    assert world.at - NOON < timedelta(seconds=5)


def test_a_table_that_is_resumed_while_a_run_goes_on_is_served_again_within_seconds():
    """Given two busy tables, when one is paused for half a minute, then the run that goes on for the other publishes it within ten seconds of its resumption, however far off its target, and asks for no more until then than how it stands."""
    world = World(growth={"one": 10, "two": 10})
    world.ends, asked = {"one": 0, "two": 0}, []
    original, standing = world.rest, world.standing

    def rest(busy, stop, seconds):
        original(busy, stop, seconds)
        world.paused = {"shop.one"} if 10 <= (world.at - NOON).total_seconds() < 40 else set()

    world.rest = rest
    world.standing = lambda each: asked.append(each.table) or standing(each)
    tables = [contract("one", target_lag="15s"), contract("two", target_lag="5s")]
    run(world, tables, rules=lane(max_run="1m"))
    at = [seconds for seconds, table, _ in world.commits if table == "shop.one"]
    assert 40 <= at[0] <= 51
    assert asked.count("shop.one") <= 6


def test_a_quiet_table_that_is_taken_back_is_read_again_by_the_run_that_serves_it():
    """Given a run that goes on for another table, when a quiet one is rolled back, which no offset shows, then it is seen within a minute or so, with few looks at the quiet ones."""
    world = World(growth={"busy": 10})
    world.ends, looked = {"busy": 0, "quiet": 5, "level": 5}, []
    original, standing = world.rest, world.standing

    def rest(busy, stop, seconds):
        original(busy, stop, seconds)
        if taken_back and world.at - NOON > timedelta(seconds=20):
            world.committed["shop.quiet"] = taken_back.pop()

    taken_back = [{0: 0}]
    world.rest = rest
    world.standing = lambda each: looked.append(each.table) or standing(each)
    tables = [contract("busy", target_lag="5s"), contract("quiet", target_lag="10m"), contract("level")]
    run(world, tables, rules=lane(max_run="5m"))
    at = [seconds for seconds, table, _ in world.commits if table == "shop.quiet"]
    assert len(at) == 2
    assert 20 <= at[1] <= 65
    assert looked.count("shop.level") <= 6


def test_an_outage_that_only_a_look_at_a_quiet_table_meets_is_nothing_to_tell():
    """Given a catalog that is away while a run looks at tables in which nothing waits, then it goes on to its end and no table failed."""
    world = World(growth={"busy": 10})
    world.ends, standing, met = {"busy": 0, "quiet": 5}, world.standing, []

    def look(each):
        if each.table == "shop.quiet" and timedelta(seconds=50) < world.at - NOON < timedelta(seconds=80):
            met.append(each.table)
            raise Outage("catalog_down", each.table, "no answer")
        return standing(each)

    world.standing = look
    final, _ = run(world, [contract("busy", target_lag="5s"), contract("quiet")], rules=lane(max_run="5m"))
    assert met == ["shop.quiet"]
    assert {each.state for each in final} == {"fresh"}
    assert world.at - NOON >= timedelta(minutes=5)


def test_a_topic_that_was_made_anew_is_noticed_though_it_holds_less_than_the_ledger():
    world = World()
    world.ends["orders"] = 50
    stopped = Stopped("topic_recreated", "shop.orders", "")

    def rest(busy, stop, seconds):
        world.at += timedelta(seconds=seconds)
        if world.at - NOON > timedelta(seconds=10):
            world.ends["orders"] = 3
            world.trouble["shop.orders"] = stopped

    world.rest = rest
    final, _ = run(world, [contract("orders")])
    assert final[0].state == "topic_recreated"


def test_reports_of_a_run_that_goes_on_come_once_per_period_and_only_after_commits():
    world = World(growth={"busy": 10})
    world.ends = {"busy": 0, "quiet": 0}
    _, between = run(world, [contract("busy", target_lag="10s"), contract("quiet")], rules=lane(max_run="5m"))
    assert {each.table for each in between} == {"shop.busy"}
    assert 3 <= len(between) <= 5
    assert [each.commits for each in between] == sorted(each.commits for each in between)


def test_stopping_the_run_ends_it_within_a_second():
    world = World(growth={"orders": 1})
    world.ends["orders"] = 0

    def rest(busy, flag, seconds):
        world.at += timedelta(seconds=seconds)
        if world.at - NOON >= timedelta(seconds=10):
            flag.set()

    world.rest = rest
    run(world, [contract("orders")])
    assert world.at - NOON <= timedelta(seconds=11)


def test_a_clock_that_is_set_back_holds_up_no_run(monkeypatch):
    """Given a run, when its machine's clock is set back by an hour, then its time goes on."""
    clock = Clock()
    before = clock.now()

    class Set(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(hours=1)

    monkeypatch.setattr("tidemark.engine.lane.serve.datetime", Set)
    assert clock.now() >= before


class Interrupted(BaseException):
    """As a termination arrives: in the main thread, anywhere."""


def test_an_interrupt_stops_running_work_and_is_passed_on():
    world, begun = World(), Event()
    world.workers = Clock().workers
    world.ends["orders"] = 5

    def slow(contract):
        begun.set()
        while not world.interrupted:
            world.stop.wait(0.01)
        raise Stopped("failed", contract.table, "cancelled")

    world.microbatch = slow

    def rest(busy, flag, seconds):
        begun.wait(5)
        raise Interrupted

    world.rest = rest
    with pytest.raises(Interrupted):
        list(serve(world, [contract("orders")], lane(), report_every=timedelta(minutes=1),
                   called_away=lambda: None, log=lambda _: None, clock=world))  # fmt: skip
    assert world.stop.is_set()
    assert world.interrupted


def test_catching_up_begins_with_those_that_no_run_has_had_a_result_for():
    told = {"shop.a": NOON, "shop.b": NOON - timedelta(hours=1)}
    found = longest_without([contract(name) for name in "abcd"], told)
    assert [each.table for each in found] == ["shop.c", "shop.d", "shop.b", "shop.a"]


def test_catching_up_reports_every_table_and_ends():
    world = World()
    world.ends = {"a": 1, "b": 2}
    reports = list(catch_up_all(world, [contract("a"), contract("b")], lane()))
    assert {r.outcome.table: r.outcome.rows.written for r in reports} == {"shop.a": 1, "shop.b": 2}
    assert all(r.final for r in reports)
