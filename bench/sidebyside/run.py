"""One measured drain of one peer, and the little interface that all of them share."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from bench.sidebyside.ground import Ground, Look, Topic
from bench.sidebyside.meter import Cost
from bench.sidebyside.reading import look_by_key
from bench.sidebyside.workload import Sums


class Peer(Protocol):
    """A way to get records from Kafka, and perhaps into a table."""

    name: str
    kinds: frozenset[str]
    """Of workloads that it can take: their formats, and `upsert`."""
    writes: bool
    """False for a limit: it makes no table."""

    def prepare(self, ground: Ground) -> None:
        """Fetch and compile what is needed; not measured."""

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """From nothing running until every record is readable in `table`, everything that was started ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one drain cost and made; a limit makes no files."""

    peer: str
    workload: str
    records: int
    bytes: int
    cpu: float
    seconds: float
    memory: int
    files: int = 0
    stored: int = 0
    commits: int = 0
    reading: float = 0.0
    """Seconds of one full read afterwards, of a table that is written by key."""

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return asdict(self)


class WrongRows(Exception):
    """A peer's table does not hold what was on the topic."""


def measured(peer: Peer, ground: Ground, topic: Topic) -> Run:
    """Drain a topic into a new table, prove the rows, drop the table; raises WrongRows, Failed."""
    table = ground.new_table(peer.name)
    cost = peer.run(ground, topic, table)
    wanted = topic.workload.sums(topic.count)
    look = Look(wanted, 0, 0, 0)
    if peer.writes:
        look = look_by_key(ground, table) if topic.workload.kind == "upsert" else ground.look(table)
        if look.sums != wanted:
            raise WrongRows(f"{peer.name}: {look.sums}, not {wanted}{_first_other(look.sums, wanted)}")
        ground.drop(table)
    return Run(
        peer=peer.name,
        workload=topic.workload.name,
        records=topic.count,
        bytes=topic.bytes,
        cpu=cost.cpu,
        seconds=cost.seconds,
        memory=cost.memory,
        files=look.files,
        stored=look.bytes,
        commits=look.commits,
        reading=look.reading,
    )


def _first_other(found: Sums, wanted: Sums) -> str:
    if found.state is None or wanted.state is None:
        return ""
    other = sorted(found.state.items() ^ wanted.state.items())[:4]
    return f"; ids and times that only one of them has begin with {other}"
