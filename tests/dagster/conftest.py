"""A scratch configuration, a fake lake that answers as services would, and Definitions made of both."""

import shutil
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from orchestration.definitions import build_defs
from resources.lake import LakeResource, configuration_of
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.engine.access.table_state import TableState
from tidemark.engine.config.configuration import Places

CONTRACTS = {
    "orders": "topic: orders\ntable: shop.orders\nowners: {data: team:orders, stream: team:messaging}\n"
    "tags: {domain: sales}\nrunbook: https://wiki/orders\ndescription: Orders\nfreshness: {silence: 24h}\n"
    "columns: {customer: {tags: [pii], description: who bought}}\n",
    "clicks": "topic: clicks\ntable: web.clicks\ntarget_lag: 5m\n",
    "audit": "topic: audit\ntable: shop.audit\nlane: slow\ncluster: other\nquality:\n"
    "  - {column: id, check: not_null}\n  - {check: min_rows, min: 1}\n"
    "  - {name: amount_is_small, sql: amount < 9, on_failure: warn}\n",
}
PLATFORM = """
kafka:
  main: {bootstrap.servers: "127.0.0.1:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN,
         sasl.username: me, sasl.password: "very-secret"}
  other: {bootstrap.servers: "127.0.0.1:2"}
schema_registry:
  main: {url: "http://127.0.0.1:3"}
  other: {url: "http://127.0.0.1:3"}
catalog: {name: lake, type: sql, uri: "sqlite:////nowhere/catalog.db", warehouse: "file:///nowhere"}
spark: {remote: "sc://127.0.0.1:4/;token=very-secret"}
lanes: {default: {linger: 1s}, slow: {poll: 30s}}
"""


class FakeLake:
    """Topics and tables as dictionaries; a state in `down` stands for a service that does not answer."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.platform = configuration.platform
        self.ends = {}
        self.tables = {}
        self.catalog = SimpleNamespace(table_exists=self.tables.__contains__)
        self.down = {}
        self.reads = []
        self.lost = []

    def kafka(self, cluster):
        return SimpleNamespace(
            describe_each=lambda topics, whole=True: self._describe(cluster, topics),  # noqa: ARG005
            clock=lambda topic, partitions: datetime(2026, 1, 1, tzinfo=UTC),  # noqa: ARG005
            topics=lambda: self._topics(cluster),
        )

    def lose_kafka(self, cluster):
        self.lost.append(cluster)

    def _topics(self, cluster):
        if cluster in self.down:
            raise Outage("kafka_down", "-", "no broker answers", cluster=cluster)
        return {name: len(end) for name, end in self.ends.items()}

    def _describe(self, cluster, topics):
        if cluster in self.down:
            raise Outage("kafka_down", "-", "no broker answers", cluster=cluster)
        found = {name: self.ends[name] for name in topics if name in self.ends}
        return {
            name: end
            if isinstance(end, Exception)
            else Topic(name, cluster, f"id-{name}", dict.fromkeys(end, 0), end, end)
            for name, end in found.items()
        }

    def state(self, table, *, ledger=True):
        self.reads.append(table)
        if "catalog" in self.down:
            raise Outage("catalog_down", table, "database is locked")
        if table not in self.tables:
            return TableState(table=table, exists=False)
        known = self.tables[table]
        if isinstance(known, Exception):
            raise known
        own = [each.topic for each in self.configuration.contracts if each.table == table]
        topic = own[0] if own else table.partition(".")[2]
        ledger = Ledger(
            cluster_id=None,
            topic_id=f"id-{topic}",
            topic=topic,
            next=known["next"],
            run_id=known.get("run_id", ""),
        )
        return TableState(
            table=table,
            exists=True,
            uuid="u",
            head=known.get("head", 1),
            receipt=known.get("receipt", 1),
            ledger=ledger,
            properties=known.get("properties", {}),
            columns=known.get("columns"),
            rows=sum(known["next"].values()),
            staged=known.get("staged", False),
        )

    def registry(self, cluster):  # noqa: ARG002 - one that knows no subject
        return SimpleNamespace(versions=lambda subject: ())  # noqa: ARG005

    def topic(self, contract):
        found = self._describe(contract.cluster, [contract.topic])
        if not found:
            raise Stopped("topic_missing", contract.table, "", topic=contract.topic)
        return found[contract.topic]

    def close(self):
        pass


LAKES = {}


class FakeLakeResource(LakeResource):
    """The resource of a test: the lake that LAKES holds for its home."""

    @contextmanager
    def open(self):
        yield LAKES[self.home]

    def shared(self):
        return LAKES[self.home]


@pytest.fixture
def where(tmp_path):
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for name, text in CONTRACTS.items():
        (contracts / f"{name}.yaml").write_text(text)
    platform = tmp_path / "platform.yaml"
    platform.write_text(PLATFORM)
    return Places(platform, contracts, tmp_path / "home")


@pytest.fixture
def lake(where):
    LAKES[str(where.home)] = FakeLake(configuration_of(where))
    yield LAKES[str(where.home)]
    del LAKES[str(where.home)]


@pytest.fixture
def resource(where):
    made = LakeResource.at(where)
    return FakeLakeResource(
        platform_file=made.platform_file, contracts_dir=made.contracts_dir, home=made.home, spark=made.spark
    )


@pytest.fixture
def defs(where, resource):
    return build_defs({"lake": resource}, where)


@pytest.fixture(scope="session")
def new_instance(tmp_path_factory):
    """The folder of an instance that knows nothing yet: to make its databases takes longer than most tests."""
    folder = tmp_path_factory.mktemp("dagster")
    with dg.instance_for_test(temp_dir=str(folder)) as made:
        assert not [*made.get_runs(), *made.all_asset_keys(), *made.all_instigator_state()]
    return folder


@pytest.fixture
def instance(new_instance, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dagster")
    shutil.copytree(new_instance, folder, dirs_exist_ok=True)
    with dg.instance_for_test(temp_dir=str(folder)) as made:
        yield made


@pytest.fixture
def queued(instance):
    """A run of a job that waits in Dagster's queue."""
    location = RegisteredCodeLocationOrigin("tidemark")

    def make(job, *, selected=None, **tags):
        origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), job.name)
        return instance.create_run_for_job(
            job,
            status=dg.DagsterRunStatus.QUEUED,
            tags=tags,
            asset_selection=selected,
            remote_job_origin=origin,
        )

    return make
