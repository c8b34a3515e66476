"""What a Kafka cluster says about its topics: identity, partitions and offsets. No records are read here.

confluent-kafka's AdminClient answers a whole round for many topics at once; errors come back as named states.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from weakref import WeakMethod

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.domain.errors import NO_TABLE, Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import known_id
from tidemark.engine.access.outages import KAFKA_DENIES, KAFKA_LACKS

TIMEOUT = 10.0
"""Seconds that one request to a broker may take."""

_ELECTING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
ELECTION = 10.0
"""Seconds that a partition may be without a leader: just after it was made, or while a broker comes back."""


_PAUSE = 0.2
_KNOWN_FOR = 60.0
"""Seconds that ids and partitions of topics are believed by those who only look: each `describe_topics` leaves an
object per topic in confluent_kafka's memory for good, and a sensor looks every few seconds for months."""


@dataclass(frozen=True, slots=True)
class _Described:
    """A topic's id and partitions, when (monotonic seconds) they were told, and the ends that were seen last."""

    topic_id: str | None
    partitions: tuple[int, ...]
    at: float
    end: Mapping[int, int]

    def is_of(self, found: Topic | Outage | Stopped | None) -> bool:
        """Whether this may be the topic that was looked at now: its records do not become fewer."""
        return isinstance(found, Topic) and all(found.end[p] >= self.end.get(p, 0) for p in self.partitions)


class _NoLeader(Outage):
    """A partition has no leader at this moment."""


class KafkaAdmin:
    """One cluster of platform.yaml. Thread-safe; connects on first use."""

    def __init__(self, cluster: str, properties: Mapping[str, Any]) -> None:
        self.cluster = cluster
        self._errors: list[str] = []
        self._auth_failed = False
        self._lately: dict[str, _Described] = {}
        self._silent: tuple[float, Outage | Stopped] | None = None
        """Why the cluster did not answer last; until when (monotonic) `_heard` says so once it was `_given_up`."""
        self._given_up = False
        self._hearing = Lock()
        remember = WeakMethod(self._remember)  # else a client that was lost keeps its threads for a while
        self._admin = AdminClient(
            {
                "socket.connection.setup.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 1000,  # a broker that is back is found well within one request
                "log_level": 0,
                **properties,
                "error_cb": lambda error: (alive := remember()) and alive(error),
            }
        )

    def _remember(self, error: KafkaError) -> None:
        self._auth_failed |= error.code() in KAFKA_DENIES  # until a request is answered
        self._errors = [*self._errors[-2:], error.str()]

    def cluster_id(self) -> str | None:
        """The id that the cluster gave itself.

        Raises:
            Outage: the cluster does not answer.
        """
        began = time.monotonic()
        try:
            found = self._await(self._admin.describe_cluster(request_timeout=TIMEOUT))
        except (Outage, Stopped) as fault:
            self._silent = 2 * time.monotonic() - began, fault
            raise
        self._silent, self._given_up = None, False
        return str(found.cluster_id) if found.cluster_id else None

    def _heard(self) -> str | None:
        """`cluster_id` for those who ask for one table after another: one answer may be slow, and is asked for again.

        A cluster that has given none to two in a row rests for as long as the last one took.
        """
        with self._hearing:
            silent = self._silent
            if silent and self._given_up and time.monotonic() < silent[0]:
                raise silent[1]
            if silent is None:
                with suppress(Outage):
                    return self.cluster_id()
            self._given_up = True
            return self.cluster_id()

    def topics(self) -> dict[str, int]:
        """Every topic that we may see, with its number of partitions; internal topics left out."""
        try:
            listed = self._admin.list_topics(timeout=TIMEOUT).topics
        except KafkaException as error:
            raise self._translated(error) from error
        return {name: len(t.partitions) for name, t in listed.items() if not name.startswith("__")}

    def describe(self, topics: Sequence[str], *, one_of_many: bool = False) -> dict[str, Topic]:
        """The topics as they are now; a topic that does not exist is absent.

        `one_of_many`: for those who ask for one table after another, of a cluster that may be down for all of them.

        Raises:
            Outage: `kafka_down`.
            Stopped: `permission_denied`.
        """
        found = self._looked_at(topics, {}, whole=True, one_of_many=one_of_many)
        for answer in found.values():
            if not isinstance(answer, Topic):
                raise answer
        return {name: topic for name, topic in found.items() if isinstance(topic, Topic)}

    def still(self, before: Topic) -> Topic | None:
        """A topic that was described before, as far as it tells whether it is the same: three requests, not five.

        While it has the same partitions, the log start is that of `before`, and the end the high watermark. None where
        it does not exist any more.

        Raises:
            Outage, Stopped: as `describe`.
        """
        cluster_id, name = self.cluster_id(), before.name
        described = self._described([name], {}).get(name)
        if described is None or set(described.partitions) != set(before.log_start):
            return self.describe([name]).get(name)
        high = self._list({name: described.partitions}, OffsetSpec.latest())[name]
        return replace(
            before, cluster_id=cluster_id, topic_id=described.topic_id, end=high, high_watermark=high
        )

    def describe_each(
        self, topics: Sequence[str], *, whole: bool = True
    ) -> dict[str, Topic | Outage | Stopped]:
        """For those who look again and again: a topic that is refused, or has no leader, has the reason in its place.

        Ids and partitions may be a minute old, unless the ends say that it is another topic. With `whole` false only
        the read_committed end is asked for, and log start and high watermark repeat it: one request per leader instead
        of three, enough to notice lag.

        Raises:
            Outage: the cluster does not answer.
            Stopped: `permission_denied` by the cluster as a whole.
        """
        known = self._believed(topics)
        found = self._looked_at(topics, known, whole=whole)
        doubtful = [name for name, each in known.items() if not each.is_of(found.get(name))]
        if doubtful:
            found = {n: each for n, each in found.items() if n not in doubtful}
            found |= self._looked_at(doubtful, {}, whole=whole)
        return found

    def _believed(self, topics: Iterable[str]) -> dict[str, _Described]:
        since = time.monotonic() - _KNOWN_FOR
        there = {name: self._lately.get(name) for name in topics}
        return {name: each for name, each in there.items() if each is not None and each.at > since}

    def _looked_at(
        self,
        topics: Sequence[str],
        known: Mapping[str, _Described],
        *,
        whole: bool,
        one_of_many: bool = False,
    ) -> dict[str, Topic | Outage | Stopped]:
        """Those of the topics that are there, or why one cannot be looked at."""
        if not topics:
            return {}
        cluster_id = self._heard() if one_of_many else self.cluster_id()
        faults: dict[str, Outage | Stopped] = {}
        described = self._described([name for name in topics if name not in known], faults) | dict(known)
        partitions = {name: each.partitions for name, each in described.items()}
        end = self._list(partitions, OffsetSpec.latest(), faults, committed=True)
        start = self._list(partitions, OffsetSpec.earliest(), faults) if whole else end
        end = _readable(end, start)
        high = self._list(partitions, OffsetSpec.latest(), faults) if whole else end
        looked_at = {name: each for name, each in described.items() if name not in faults}
        self._lately |= {name: replace(each, end=end[name]) for name, each in looked_at.items()}
        return faults | {
            name: Topic(
                name=name,
                cluster_id=cluster_id,
                topic_id=each.topic_id,
                log_start=start[name],
                end=end[name],
                high_watermark=high[name],
            )
            for name, each in looked_at.items()
        }

    def _described(self, topics: Sequence[str], faults: dict[str, Outage | Stopped]) -> dict[str, _Described]:
        """Those of the topics that exist; one that is refused is put into `faults`."""
        if not topics:
            return {}
        asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT)
        found = {}
        for name, future in asked.items():
            try:
                if (answer := self._unless_missing(future)) is not None:
                    partitions = tuple(p.id for p in answer.partitions)
                    found[name] = _Described(_topic_id(answer), partitions, time.monotonic(), {})
            except (Outage, Stopped) as fault:
                faults[name] = fault
        return found

    def offsets_at(self, topic: str, partitions: Iterable[int], milliseconds: int) -> dict[int, int]:
        """The first offset at or after a time (Unix milliseconds) per partition; the end where there is none.

        Kafka looks at transaction markers as well, whose time is the broker's.

        Before 1970 that is the earliest: in the protocol negative times are words (-1 latest, -2 earliest) or refused.
        """
        ids = list(partitions)
        since = OffsetSpec.earliest() if milliseconds < 0 else OffsetSpec.for_timestamp(milliseconds)
        end = self._list({topic: ids}, OffsetSpec.latest(), committed=True)
        start = self._list({topic: ids}, OffsetSpec.earliest())
        last = _readable(end, start)[topic]  # asked first: a record that comes meanwhile lies behind it
        at = self._list({topic: ids}, since)[topic]
        return {p: offset if offset >= 0 else last[p] for p, offset in at.items()}

    def clock(self, topic: str, partitions: Iterable[int]) -> datetime | None:
        """The newest record timestamp of the topic; times more than an hour ahead are ignored. None when empty."""
        request = {TopicPartition(topic, p): OffsetSpec.max_timestamp() for p in partitions}
        newest = [each.timestamp for each in self._offsets(request).values()] if request else []
        sane = [t for t in newest if 0 <= t <= (time.time() + 3600) * 1000]
        return datetime.fromtimestamp(max(sane) / 1000, UTC) if sane else None

    def group_offsets(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """What a consumer group has committed for `topic`; partitions without a commit are absent."""
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p) for p in partitions])]
        futures = self._admin.list_consumer_group_offsets(request, request_timeout=TIMEOUT)
        answer = self._await(next(iter(futures.values())))
        return {tp.partition: tp.offset for tp in answer.topic_partitions if tp.offset >= 0}

    def commit_group(self, group: str, topic: str, following: Mapping[int, int]) -> None:
        """Set what a consumer group has committed for `topic`; refused while the group has members.

        Raises:
            Outage, Stopped, KafkaException.
        """
        places = [TopicPartition(topic, p, o) for p, o in following.items()]
        futures = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], request_timeout=TIMEOUT
        )
        for each in self._await(next(iter(futures.values()))).topic_partitions:
            if each.error is not None:
                raise KafkaException(each.error)

    def _list(
        self,
        partitions: Mapping[str, Sequence[int]],
        spec: OffsetSpec,
        faults: dict[str, Outage | Stopped] | None = None,
        *,
        committed: bool = False,
    ) -> dict[str, dict[int, int]]:
        request = {TopicPartition(name, p): spec for name, ids in partitions.items() for p in ids}
        offsets: dict[str, dict[int, int]] = {name: {} for name in partitions}
        if not request:
            return offsets
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        for where, found in self._offsets(request, faults, isolation_level=level).items():
            offsets[where.topic][where.partition] = int(found.offset)
        return offsets

    def _offsets(
        self,
        request: Mapping[TopicPartition, OffsetSpec],
        faults: dict[str, Outage | Stopped] | None = None,
        **options: Any,
    ) -> dict[TopicPartition, Any]:
        """What the leaders answer by partition; asked again while one is elected.

        What is not answered is raised, or put into `faults` by topic.
        """
        until = time.monotonic() + ELECTION
        answers: dict[TopicPartition, Any] = {}
        left = dict(request)
        while left:
            futures = self._admin.list_offsets(left, request_timeout=TIMEOUT, **options)
            left = {}
            for where, future in futures.items():
                try:
                    answers[where] = self._await(future)
                except (Outage, Stopped) as fault:
                    if isinstance(fault, _NoLeader) and time.monotonic() < until:
                        left[where] = request[where]
                    elif faults is None:
                        raise
                    else:
                        faults[where.topic] = fault
            time.sleep(_PAUSE if left else 0)
        return answers

    def _await(self, future: "Future[Any]") -> Any:
        try:
            found = future.result(timeout=TIMEOUT + 5)
        except KafkaException as error:
            raise self._translated(error) from error
        except TimeoutError as error:
            raise Outage("kafka_down", NO_TABLE, self._why("no answer"), cluster=self.cluster) from error
        self._auth_failed = False
        return found

    def _unless_missing(self, future: "Future[Any]") -> Any | None:
        try:
            return self._await(future)
        except Stopped as stopped:
            if stopped.state == "topic_missing":
                return None
            raise

    def _translated(self, error: KafkaException) -> Outage | Stopped:
        fault = error.args[0]
        self._admin.poll(0)  # only then are the client's own errors told, among them why it cannot connect
        if fault.code() in KAFKA_LACKS:
            return Stopped("topic_missing", NO_TABLE, fault.str(), cluster=self.cluster)
        if fault.code() in KAFKA_DENIES or self._auth_failed:
            return Stopped("permission_denied", NO_TABLE, self._why(fault.str()), cluster=self.cluster)
        outage = _NoLeader if fault.code() in _ELECTING else Outage
        return outage("kafka_down", NO_TABLE, self._why(fault.str()), cluster=self.cluster)

    def _why(self, detail: str) -> str:
        return "; ".join([detail, *self._errors[-1:]])


def _readable(
    end: Mapping[str, Mapping[int, int]], start: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    """Ends, none of them below the log start: where a transaction is open that began there, Kafka's own is."""
    return {name: {p: max(o, start[name].get(p, o)) for p, o in found.items()} for name, found in end.items()}


def _topic_id(topic: Any) -> str | None:
    found = getattr(topic, "topic_id", None)
    return known_id(str(found)) if found else None
