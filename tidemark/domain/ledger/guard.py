"""The topic against the ledger: is what Kafka offers still the continuation of what the table holds?

Pure; every finding is a named stop state with the affected range (docs/operations.md, States).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import Offsets
from tidemark.domain.states import State


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its cluster describes it now: offsets per partition, read_committed end."""

    name: str
    cluster_id: str | None
    topic_id: str | None
    log_start: Offsets
    end: Offsets
    high_watermark: Offsets


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a table must stop, with the fields that the error carries."""

    state: State
    detail: str
    fields: Mapping[str, Any]


def stopped_by(contract: Contract, finding: Finding, when: str = "") -> Stopped:
    """The stop that the finding is."""
    said = {"topic": contract.topic, "cluster": contract.cluster, **finding.fields}
    return Stopped(finding.state, contract.table, f"{when}{finding.detail}", **said)


def examine(ledger: Ledger, topic: Topic) -> Finding | None:
    """The first reason, gravest first, why reading must not go on; None when it may."""
    for look in (_identity, _partitions, _regressed, _expired):
        finding = look(ledger, topic)
        if finding:
            return finding
    return None


def another(ledger: Ledger | None, topic: Topic | None) -> Finding | None:
    """Why the offsets of the topic mean other records than those that were read; None while nothing says so."""
    if ledger is None or topic is None:
        return None
    return _identity(ledger, topic) or _partitions(ledger, topic)


def another_cluster(ledger: Ledger | None, cluster_id: str | None) -> Finding | None:
    """Whether the brokers are of another cluster than the one that was read."""
    if ledger is None or not ledger.cluster_id or not cluster_id or ledger.cluster_id == cluster_id:
        return None
    return Finding(
        "cluster_changed",
        f"The ledger names cluster {ledger.cluster_id}, the broker says {cluster_id}.",
        {"ledger_cluster_id": ledger.cluster_id, "cluster_id": cluster_id},
    )


def another_topic(ledger: Ledger | None, name: str) -> Finding | None:
    """Whether the contract names another topic than the one that was read."""
    if ledger is None or ledger.topic == name:
        return None
    return Finding(
        "topic_recreated",
        f"The ledger counts offsets of {ledger.topic}, the contract names {name}: mend `topic` if that is not meant.",
        {"ledger_topic": ledger.topic, "next": dict(ledger.next)},
    )


def _identity(ledger: Ledger, topic: Topic) -> Finding | None:
    if finding := another_cluster(ledger, topic.cluster_id):
        return finding
    if finding := another_topic(ledger, topic.name):
        return finding
    if ledger.topic_id and topic.topic_id and ledger.topic_id != topic.topic_id:
        return Finding(
            "topic_recreated",
            f"It was deleted and created again: the ledger names topic id {ledger.topic_id}, the broker says "
            f"{topic.topic_id}. What the old one held unread is gone.",
            {"ledger_topic_id": ledger.topic_id, "topic_id": topic.topic_id, "next": dict(ledger.next)},
        )
    return None


def _partitions(ledger: Ledger, topic: Topic) -> Finding | None:
    gone = sorted(set(ledger.next) - set(topic.end))
    if gone:
        return Finding("partitions_shrunk", f"Partitions {gone} are gone.", {"partitions": gone})
    return None


def _regressed(ledger: Ledger, topic: Topic) -> Finding | None:
    behind = {p: (o, topic.high_watermark[p]) for p, o in ledger.next.items() if topic.high_watermark[p] < o}
    if behind:
        return Finding(
            "offsets_regressed",
            "; ".join(
                f"partition {p}: committed {mine}, Kafka ends at {end}" for p, (mine, end) in behind.items()
            ),
            {"partitions": {p: {"next": mine, "end": end} for p, (mine, end) in behind.items()}},
        )
    return None


def _expired(ledger: Ledger, topic: Topic) -> Finding | None:
    lost = expired_ranges(ledger, topic)
    if lost:
        return Finding(
            "offsets_expired",
            "; ".join(f"partition {p}: offsets {a} to {b - 1} are gone" for p, (a, b) in lost.items()),
            {"ranges": {p: [a, b] for p, (a, b) in lost.items()}},
        )
    return None


def expired_ranges(ledger: Ledger, topic: Topic) -> dict[int, tuple[int, int]]:
    """Offsets [next, log start) that Kafka deleted before they were read, per partition."""
    return {
        p: (ledger.next.get(p, 0), first)
        for p, first in sorted(topic.log_start.items())
        if first > ledger.next.get(p, 0)
    }
