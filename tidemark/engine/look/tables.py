"""One look at many tables at once: few requests to each Kafka cluster, catalog loads in parallel (see status.py)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract, StartConsumerGroup
from tidemark.domain.config.platform import Platform
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.listening import listens
from tidemark.engine.access.outages import asked
from tidemark.engine.look.headroom import Unread, headrooms
from tidemark.engine.look.quarantined import unresolved
from tidemark.engine.look.sightings import Memory
from tidemark.engine.look.status import Facts, Hint, Status, judge, waiting_records
from tidemark.engine.table.starting_offsets import starting_offsets
from tidemark.engine.table.takeover import why_not_anew

PARALLEL = 8
CONNECT = 2.0
"""Seconds that a service gets to accept a connection."""


@contextmanager
def looking(name: str) -> Iterator[Executor]:
    """A pool whose threads nobody waits for where the look is interrupted: they change nothing."""
    pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix=name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def look(lake: Lake, contracts: Sequence[Contract], memories: Mapping[str, Memory]) -> list[Facts]:
    """The facts of every table, in the order given; `memories` are those of earlier looks."""
    with looking("status") as pool:
        found = list(pool.map(lambda facts: _with_quarantine(lake, facts), _fitted(lake, contracts, pool)))
        found = list(pool.map(lambda facts: _with_clock(lake, facts), found))
    found = _with_headroom(lake, found)
    found = _with_reachability(lake.platform, found)
    now = datetime.now(UTC)
    return [_remembered(facts, memories.get(facts.contract.table, Memory()), now) for facts in found]


def hinted(lake: Lake, found: Sequence[Facts], known: Mapping[str, Hint]) -> list[Facts]:
    """The facts with what is known of tables, by name; of one that is gone also what keeps it from being made anew.

    What is known is younger than the look: a table that has been loaded by it, and was not there, is looked at again.
    """
    told = [replace(each, hint=known.get(each.contract.table, each.hint)) for each in found]
    before = [each.contract for each in told if _seems_gone(each)]
    with looking("status") as pool:
        again = {each.contract.table: each for each in _fitted(lake, before, pool)}
    return [_gone(lake, _newer(each, again.get(each.contract.table, each))) for each in told]


def _seems_gone(facts: Facts) -> bool:
    return facts.table is not None and not facts.loaded and facts.hint.loaded


def _newer(facts: Facts, seen: Facts) -> Facts:
    table = replace(facts, table=seen.table, table_fault=seen.table_fault)
    topic = replace(table, topic=seen.topic, topic_fault=seen.topic_fault)
    return replace(topic, begin=seen.begin, begin_fault=seen.begin_fault)


def _gone(lake: Lake, facts: Facts) -> Facts:
    if not _seems_gone(facts) or (facts.table and facts.table.exists):
        return facts
    why, _ = asked(lambda: why_not_anew(lake, facts.contract))
    return replace(facts, gone=why.state) if why else facts


def judge_all(lake: Lake, found: Sequence[Facts]) -> list[Status]:
    """The status of each table, as of now, in the order of the facts."""
    now, lanes = datetime.now(UTC), lake.platform.lanes
    return [judge(each, poll=lanes[each.contract.lane].poll, now=now) for each in found]


def unread(lake: Lake, contracts: Sequence[Contract]) -> list[Facts]:
    """Of each table, in the order given, only what says how long Kafka keeps what was not read yet."""
    with looking("headroom") as pool:
        return _with_headroom(lake, _fitted(lake, contracts, pool))


def _fitted(lake: Lake, contracts: Sequence[Contract], pool: Executor) -> list[Facts]:
    """Tables with their topics, and where first loads begin."""
    topics = pool.submit(_topics, lake, contracts)
    found = list(pool.map(lambda each: _table(lake, each), contracts))
    return list(pool.map(partial(_with_begin, lake), _with_topics(lake, found, topics.result())))


def _with_begin(lake: Lake, facts: Facts) -> Facts:
    """Of a time or a consumer group Kafka alone knows where it is."""
    contract, topic = facts.contract, facts.topic
    asks = isinstance(contract.ingest.start, datetime | StartConsumerGroup)
    if not asks or topic is None or facts.table is None or facts.loaded:
        return facts
    begin, fault = asked(lambda: starting_offsets(lake.kafka(contract.cluster), contract, topic))
    return replace(facts, begin=begin, begin_fault=fault)


def _table(lake: Lake, contract: Contract) -> Facts:
    state, fault = asked(lambda: lake.state(contract.table))
    if fault == "ledger_missing":
        state, _ = asked(lambda: lake.state(contract.table, ledger=False))
    return Facts(contract, table=state, table_fault=fault)


def _with_quarantine(lake: Lake, facts: Facts) -> Facts:
    ledger = facts.table.ledger if facts.table else None
    quarantined, _ = asked(lambda: unresolved(lake, facts.contract.quarantine_table, ledger))
    return replace(facts, quarantined=quarantined)


Answers = tuple[Mapping[tuple[str, str], Topic], Mapping[tuple[str, str], State]]


def _topics(lake: Lake, contracts: Sequence[Contract]) -> Answers:
    """Topics and faults by (cluster, topic); a refused topic does not hide the others."""
    by_cluster: dict[str, set[str]] = defaultdict(set)
    for contract in contracts:
        by_cluster[contract.cluster].add(contract.topic)
    topics: dict[tuple[str, str], Topic] = {}
    faults: dict[tuple[str, str], State] = {}
    with looking("topics") as pool:  # each that does not answer takes ten seconds
        answers = list(
            pool.map(
                lambda each: asked(lambda: lake.kafka(each).describe_each(sorted(by_cluster[each]))),
                by_cluster,
            )
        )
    for (cluster, names), (found, fault) in zip(by_cluster.items(), answers, strict=True):
        if fault is not None:
            faults |= {(cluster, name): fault for name in names}
        for name, answer in (found or {}).items():
            if isinstance(answer, Topic):
                topics[cluster, name] = answer
            else:
                faults[cluster, name] = answer.state
    return topics, faults


def _with_topics(lake: Lake, found: Sequence[Facts], answers: Answers) -> list[Facts]:
    """Topics are asked beside the tables: one that seems to end before its table has got to is asked once more."""
    seen = [_absent(lake, _with_topic(facts, *answers)) for facts in found]
    before = [facts.contract for facts in seen if _regressed(facts)]
    later = _topics(lake, before) if before else answers
    return [_with_topic(facts, *later) if _regressed(facts) else facts for facts in seen]


def _regressed(facts: Facts) -> bool:
    return facts.finding is not None and facts.finding.state == "offsets_regressed"


def _with_topic(
    facts: Facts, topics: Mapping[tuple[str, str], Topic], faults: Mapping[tuple[str, str], State]
) -> Facts:
    key = facts.contract.cluster, facts.contract.topic
    return replace(facts, topic=topics.get(key), topic_fault=faults.get(key))


def _absent(lake: Lake, facts: Facts) -> Facts:
    """Why the topic of a table that was loaded is not there: its cluster may be another one now."""
    if facts.topic is not None or facts.topic_fault or not facts.loaded:
        return facts
    _, fault = asked(lambda: lake.topic(facts.contract))
    return replace(facts, topic_fault=fault)


def _with_clock(lake: Lake, facts: Facts) -> Facts:
    topic = facts.topic
    if topic is None:
        return facts
    clock, _ = asked(lambda: lake.kafka(facts.contract.cluster).clock(topic.name, topic.end))
    return replace(facts, stream_clock=clock)


def _with_headroom(lake: Lake, found: Sequence[Facts]) -> list[Facts]:
    """That of tables whose records wait: each has its own, also beside others of the same topic."""
    by_cluster: dict[str, dict[str, Unread]] = defaultdict(dict)
    for facts in found:
        topic, contract = facts.topic, facts.contract
        if topic and _behind(facts):
            first = facts.committed
            at = {p: max(first.get(p, 0), topic.log_start[p]) for p in topic.end}
            behind = {p: offset for p, offset in at.items() if offset < topic.end[p]}
            by_cluster[contract.cluster][contract.table] = contract.topic, behind
    rooms: dict[str, float | None] = {}
    for cluster, wanted in by_cluster.items():
        answer, _ = asked(lambda: headrooms(lake.platform.kafka[cluster], wanted))  # noqa: B023
        rooms |= answer or {}
    return [
        replace(each, headroom=rooms.get(each.contract.table)) if _behind(each) else each for each in found
    ]


def _with_reachability(platform: Platform, found: Sequence[Facts]) -> list[Facts]:
    """Only tables whose records wait need Spark and the registry."""
    if not any(_behind(facts) for facts in found):
        return list(found)
    spark_down = not listens(platform.spark.remote, CONNECT)
    registries = {name: not listens(block.url, CONNECT) for name, block in platform.schema_registry.items()}

    def unreachable(facts: Facts) -> State | None:
        formats = {facts.contract.value.format, facts.contract.key.format}
        if formats & REGISTRY_FORMATS and registries.get(facts.contract.cluster):
            return "registry_down"
        return "spark_down" if spark_down else None

    return [replace(facts, unreachable=unreachable(facts)) if _behind(facts) else facts for facts in found]


def _behind(facts: Facts) -> bool:
    return facts.table is not None and not facts.begin_fault and waiting_records(facts) > 0


def _remembered(facts: Facts, memory: Memory, now: datetime) -> Facts:
    if facts.topic is None or facts.table is None or facts.begin_fault:
        return replace(facts, memory=memory)
    return replace(facts, memory=memory.with_look(facts.topic, facts.committed, now))
