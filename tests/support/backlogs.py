"""A batch so large that it can be met while it is written, and runs until a service is seen again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

from lakehouse import Lakehouse, Table
from waiting import until

from tidemark.domain.states import OUTAGES

BACKLOG = 200_000
_SMALL = {"write.parquet.row-group-size-bytes": "100000"}  # else a file appears when it is whole


def with_backlog(lakehouse: Lakehouse) -> Table:
    """A table of ten rows with that batch waiting."""
    topic = lakehouse.cluster.topic("backlog", 2)
    topic.send(range(10))
    table = lakehouse.table(topic, table_properties=_SMALL)
    table.run()
    payload = topic.encode({"id": 7, "customer": "c", "amount": 1.0, "at": 0})
    topic.send_raw((None, payload, n % 2) for n in range(BACKLOG))
    return table


@contextmanager
def until_it_writes(table: Table) -> Iterator[None]:
    """What is started in here has begun to write a file afterwards."""
    folder = Path(urlparse(table.iceberg().location()).path) / "data"
    there = set(folder.rglob("*.parquet"))
    yield
    until(lambda: set(folder.rglob("*.parquet")) - there, "the server to begin writing", 120)


def goes_on(table: Table) -> None:
    """Run as the sensor would until all is there; a run may still find the service coming up, and say so."""
    seen: list[str] = []
    until(
        lambda: seen.append(table.run().state) or seen[-1] not in OUTAGES, "the service to be seen again", 90
    )
    assert seen[-1] == "fresh", seen
