"""The scratch topic and table of a drill: made for it, filled by it, gone after it. Nothing else is ever written to.

The topic's name begins with two underscores, so no `topics:` pattern takes it. Whatever a drill that was killed has
left is swept by a later one, once it is an hour old.
"""

import io
import json
import os
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import fastavro
import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import QUARANTINE
from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import Outage
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated

PREFIX = "tidemark_drill_"
SUBJECT = "{topic}-value"
STALE_SECONDS = 3_600
_WAIT = 30.0
SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "Drill",
    "namespace": "tidemark",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}
Message = tuple[bytes | None, bytes | None]


@dataclass
class Scratch:
    """One drill's own topic, subject and table; `registry` false: values are plain JSON."""

    platform: Platform
    cluster: str
    topic: str
    registry: bool
    schema_id: int = 0
    sent: int = 0
    _lakes: list[Lake] = field(default_factory=list)

    @property
    def contract(self) -> Contract:
        """What a user would have written for the topic."""
        value = (
            {}
            if self.registry
            else {"value": {"format": "json", "fields": {"id": "bigint", "text": "string"}}}
        )
        table = f"{self.platform.default_namespace}.{self.topic.removeprefix('__')}"
        return Contract.model_validate(
            {
                "topic": self.topic,
                "cluster": self.cluster,
                "table": table,
                "quarantine": {"fail": 0.5},
                **value,
            }
        )

    @property
    def configuration(self) -> Configuration:
        """The platform with the scratch contract alone: no drill can reach another table."""
        return Configuration(self.platform, (self.contract,))

    @cached_property
    def lake(self) -> Lake:
        """Clients of the platform as it is."""
        return self._opened(self.configuration)

    def refused(self, **blocks: Any) -> Lake:
        """Clients of a platform of which some blocks lead nowhere; the services themselves are left alone."""
        return self._opened(Configuration(self.platform.model_copy(update=blocks), (self.contract,)))

    def _opened(self, configuration: Configuration) -> Lake:
        lake = Lake(configuration)
        self._lakes.append(lake)
        return lake

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id of a schema under a subject."""
        answer = self._registry(
            "POST", f"/subjects/{quote(subject, safe='')}/versions", json={"schema": json.dumps(schema)}
        )
        return int(answer.json()["id"])

    def encode(self, number: int, schema_id: int | None = None) -> bytes:
        """An order of the drill, as its producer writes it."""
        row = {"id": number, "text": f"drill {number}"}
        if not self.registry:
            return json.dumps(row).encode()
        out = io.BytesIO()
        out.write(struct.pack(">bI", 0, schema_id or self.schema_id))
        fastavro.schemaless_writer(out, fastavro.parse_schema(dict(SCHEMA)), row)
        return out.getvalue()

    def send(self, count: int, schema_id: int | None = None) -> None:
        """So many good records."""
        numbers = range(self.sent, self.sent + count)
        self.send_raw((str(n).encode(), self.encode(n, schema_id)) for n in numbers)
        self.sent += count

    def send_raw(self, messages: Iterable[Message]) -> None:
        """(key, value) as they are; returns when the broker has them.

        Raises:
            Outage: `kafka_down`.
        """
        producer = Producer({**self._properties(), "enable.idempotence": True, "log_level": 0})
        for key, value in messages:
            producer.produce(self.topic, value=value, key=key)
        if producer.flush(_WAIT):
            raise Outage("kafka_down", self.contract.table, "the broker did not take the drill's records")

    def create(self) -> None:
        """Make topic and subject."""
        admin = AdminClient({**self._properties(), "log_level": 0})
        with translated(self.contract.table, topic=self.topic, cluster=self.cluster):
            admin.create_topics([NewTopic(self.topic, num_partitions=2, replication_factor=-1)])[
                self.topic
            ].result(_WAIT)
        until = time.monotonic() + _WAIT
        while time.monotonic() < until and not self._led():
            time.sleep(0.2)
        if self.registry:
            self.schema_id = self.register(SUBJECT.format(topic=self.topic), SCHEMA)

    def _led(self) -> bool:
        """A topic that was just created may be without a leader for a moment."""
        try:
            return bool(self.lake.kafka(self.cluster).describe([self.topic]))
        except Outage:
            return False

    def drop(self) -> None:
        """Remove every trace, the topic last: while it is there, a later drill finds what could not be removed now."""
        for kind in (self._drop_tables, self._drop_subjects, self._drop_topic):
            with suppress(Exception):
                kind()
        for lake in self._lakes:
            with suppress(Exception):
                lake.close()

    def _drop_tables(self) -> None:
        for table in (self.contract.quarantine_table, self.contract.table):
            self.lake.spark().sql(f"DROP TABLE IF EXISTS {self.lake.identifier(table)} PURGE")

    def _drop_topic(self) -> None:
        admin = AdminClient({**self._properties(), "log_level": 0})
        asked = admin.delete_topics([self.topic])
        asked[self.topic].result(_WAIT)

    def _drop_subjects(self) -> None:
        if not self.registry:
            return
        mine = [s for s in self._registry("GET", "/subjects").json() if str(s).startswith(self.topic)]
        for subject in mine:
            for forever in ("false", "true"):
                self._registry(
                    "DELETE", f"/subjects/{quote(subject, safe='')}", params={"permanent": forever}
                )

    def _properties(self) -> dict[str, str]:
        return self.platform.kafka[self.cluster].client_properties()

    def _registry(self, method: str, path: str, **what: Any) -> httpx.Response:
        return self.lake.registry(self.cluster).request(method, path, **what)


@contextmanager
def scratch(platform: Platform, cluster: str) -> Iterator[Scratch]:
    """A scratch of this drill alone, dropped at the end however it comes."""
    block = platform.schema_registry.get(cluster)
    token = f"{int(time.time())}_{os.urandom(3).hex()}"
    made = Scratch(platform, cluster, f"__{PREFIX}{token}", registry=bool(block and block.url))
    try:
        _sweep(made)
        made.create()
        yield made
    finally:
        made.drop()


def _sweep(mine: Scratch) -> None:
    """Drop what drills that were killed have left, as their names tell."""
    namespace = mine.platform.default_namespace
    tables = mine.lake.catalog.list_tables(namespace) if mine.lake.catalog.namespace_exists(namespace) else []
    names = {f"__{t[-1].removesuffix(QUARANTINE)}" for t in tables if t[-1].startswith(PREFIX)}
    admin = AdminClient({**mine._properties(), "log_level": 0})  # noqa: SLF001 - of the same module
    names |= {t for t in admin.list_topics(timeout=10).topics if t.startswith(f"__{PREFIX}")}
    for topic in sorted(names):
        began = topic.removeprefix(f"__{PREFIX}").partition("_")[0]
        if began.isdecimal() and time.time() - int(began) > STALE_SECONDS:
            Scratch(mine.platform, mine.cluster, topic, mine.registry).drop()
