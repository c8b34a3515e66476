"""What a contract becomes when nothing is left to default."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.domain.config.contract import StartConsumerGroup, StartOffsets
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Refused


def test_one_line_is_a_whole_contract(installation):
    contract = installation.contract("topic: shop.orders-v2").only()
    assert (contract.topic, contract.table) == ("shop.orders-v2", "lake.shop_orders_v2")
    assert (contract.namespace, contract.name) == ("lake", "shop_orders_v2")
    assert contract.quarantine_table == "lake.shop_orders_v2_quarantine"
    assert (contract.cluster, contract.lane, contract.format_version) == ("main", "default", 2)
    assert (contract.value.format, contract.value.schema_mode) == ("registry", "by_schema_id")
    assert contract.value.subject == "shop.orders-v2-value"
    assert contract.key.format == "raw"
    assert contract.target_lag == timedelta(minutes=1)
    assert (contract.freshness.warn, contract.freshness.fail) == (timedelta(minutes=2), timedelta(minutes=10))
    assert (contract.quarantine.warn, contract.quarantine.fail) == (0.001, 0.05)
    assert (contract.ingest.start, contract.ingest.max_records) == ("earliest", 2_000_000)
    assert contract.maintenance.compaction.target_file_size == 256 * 2**20
    assert contract.schema_changes.incompatible == "review"


@pytest.mark.parametrize(
    "written",
    [
        "1_000",
        "1.50",
        "+12",
        "-0",
        "1.10",
        "007",
        "1_0.5",
        "1.5e+3",
        "NO",
        "12_",
        "1__0",
        "1_.5",
        "1__0.5",
        "1.0e-9999999999999999999",
    ],
)
def test_what_is_text_is_what_was_written(installation, written):
    """Given a password or a tag without quotes that looks like a number, then none of its digits is lost."""
    installation.platform(f"""
        kafka: {{main: {{bootstrap.servers: "b:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN,
                         sasl.username: me, sasl.password: {written}}}}}
        schema_registry: {{main: {{url: "http://registry:8081"}}}}
        catalog: {{type: rest, uri: "http://catalog"}}
        spark: {{remote: "sc://spark:15002"}}
        """)
    configuration = installation.contract(f"topic: orders\ntable_properties: {{release: {written}}}").load()
    assert configuration.platform.kafka["main"].client_properties()["sasl.password"] == written
    assert configuration.contracts[0].table_properties == {"release": written}


def test_a_size_may_stand_in_the_environment(installation):
    """Given `${NAME}` for a number of bytes, then its digits are that number, as they are in the file."""
    installation.contract("topic: orders\nmaintenance: {compaction: {max_bytes: '${MOST}'}}")
    assert installation.only(MOST="1073741824").maintenance.compaction.max_bytes == 2**30


def test_the_platforms_namespace_is_the_default(installation):
    installation.platform("default_namespace: raw").contract("topic: orders")
    assert installation.only().table == "raw.orders"


def test_everything_that_is_executed_can_be_said(installation):
    contract = installation.contract("""
        topic: orders
        cluster: main
        table: shop.orders
        description: Orders
        owners: {data: "team:orders", stream: stream@example.com}
        approvers: ["team:data-platform"]
        runbook: https://wiki/orders
        tags: {domain: sales, tier: 1}
        lane: default
        target_lag: 5s
        event_time: ordered_at
        value: {format: avro, schema: by_schema_id, subject: orders-in, envelope: none}
        key: {format: string}
        columns: {email: {tags: [pii], description: Where the receipt went}}
        partition_by: [day(ordered_at), "bucket(16, customer_id)", country]
        sort_by: [customer_id, _kafka.offset]
        format_version: 3
        table_properties: {write.parquet.compression-codec: zstd, read.split.planning-lookback: 5}
        schema_changes: {add_column: apply, widen_type: apply, remove_column: apply, incompatible: review}
        quarantine: {warn: 0.01, fail: 0.5}
        freshness: {warn: 2m, fail: 10m, silence: 24h}
        ingest: {start: latest, max_records: 10_000}
        maintenance:
          compaction: {target_file_size: 64MB, min_input_files: 4, max_delete_ratio: 0.2, max_bytes: 1GB}
          snapshots: {max_age: 1d, min_keep: 5, max_count: 100}
          orphans: {older_than: 2d}
    """).only()
    assert contract.owners.stream == "stream@example.com"
    assert contract.tags == {"domain": "sales", "tier": "1"}
    assert [field.spark_sql() for field in contract.partition_by] == [
        "days(ordered_at)",
        "bucket(16, customer_id)",
        "country",
    ]
    assert contract.table_properties["read.split.planning-lookback"] == "5"
    assert contract.columns["email"].tags == ("pii",)
    assert contract.freshness.silence == timedelta(days=1)
    assert contract.value.subject == "orders-in"
    assert contract.ingest.max_records == 10_000


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("{offsets: {0: 123, 1: 5}}", StartOffsets(offsets={0: 123, 1: 5})),
        ("{consumer_group: connect-orders}", StartConsumerGroup(consumer_group="connect-orders")),
    ],
)
def test_every_form_of_start_is_read(installation, written, start):
    contract = installation.contract(f"topic: orders\ningest: {{start: {written}}}").only()
    assert contract.ingest.start == start


def test_whoever_owns_the_data_approves_unless_others_are_named(installation):
    installation.contract("topic: a\nowners: {data: 'team:a'}", "a.yaml")
    installation.contract("topic: b\nowners: {data: 'team:b'}\napprovers: ['team:c']", "b.yaml")
    assert [contract.approvers for contract in installation.load().contracts] == [("team:a",), ("team:c",)]


@pytest.mark.parametrize(
    ("said", "warn", "fail"),
    [("{fail: 1m}", 1, 1), ("{warn: 30m}", 30, 30), ("{}", 2, 10), ("{warn: 1m, fail: 5m}", 1, 5)],
)
def test_freshness_follows_the_target_lag_and_never_contradicts_what_is_said(installation, said, warn, fail):
    contract = installation.contract(f"topic: orders\nfreshness: {said}").only()
    assert (contract.freshness.warn, contract.freshness.fail) == (
        timedelta(minutes=warn),
        timedelta(minutes=fail),
    )


@pytest.mark.parametrize(
    ("said", "quarantine", "snapshots"),
    [
        ("quarantine: {fail: 0}", (0, 0), (20, 2000)),
        ("quarantine: {warn: 0.5}", (0.5, 0.5), (20, 2000)),
        ("maintenance: {snapshots: {max_count: 5}}", (0.001, 0.05), (5, 5)),
        ("maintenance: {snapshots: {min_keep: 3000}}", (0.001, 0.05), (3000, 3000)),
    ],
)
def test_a_default_never_contradicts_what_is_said(installation, said, quarantine, snapshots):
    contract = installation.contract(f"topic: orders\n{said}").only()
    kept = contract.maintenance.snapshots
    assert (contract.quarantine.warn, contract.quarantine.fail) == quarantine
    assert (kept.min_keep, kept.max_count) == snapshots
    assert ("max_count" in kept.model_fields_set) == ("max_count" in said), "only what is said wins"


@pytest.mark.parametrize("form", ["string", "raw"])
def test_formats_without_a_schema_have_no_subject(installation, form):
    assert installation.contract(f"topic: orders\nvalue: {{format: {form}}}").only().value.subject is None


def test_the_digest_changes_with_the_content_and_with_nothing_else(installation):
    digest = installation.contract("topic: orders\ntarget_lag: 60s").only().digest
    assert len(digest) == 16
    assert installation.contract("target_lag: 1m\n\ntopic: orders # the same").only().digest == digest
    assert installation.contract("topic: orders\ntarget_lag: 61s").only().digest != digest


def test_contracts_are_sorted_by_table_and_found_by_it(installation):
    for name in ("c", "a", "b"):
        installation.contract(f"topic: {name}\nlane: default", f"{name}.yaml")
    configuration = installation.load()
    assert [contract.table for contract in configuration.contracts] == ["lake.a", "lake.b", "lake.c"]
    assert configuration.contract("lake.b").topic == "b"
    assert len(configuration.lane("default")) == 3
    with pytest.raises(Refused, match=r"no contract makes a table lake\.bb"):
        configuration.contract("lake.bb")


def test_what_is_done_to_the_append_table_is_not_done_to_its_upsert_table(installation):
    """Given `rollback`, `replay` or `backfill` with the name of an upsert table, then the append table is named."""
    configuration = installation.contract("topic: b\nkey: {format: string, fields: [k]}\nupsert: [k]").load()
    assert configuration.any_table("lake.b_current").table == "lake.b_current"
    with pytest.raises(Refused, match=r"lake\.b_current is merged from lake\.b and follows it") as refused:
        configuration.contract("lake.b_current")
    with pytest.raises(Refused) as mistyped:
        configuration.contract("lake.b_currnt")
    assert mistyped.value.next_step == "did you mean lake.b_current?"
    assert refused.value.next_step == "the same for lake.b"


def test_contracts_cannot_be_changed_once_loaded(installation):
    contract = installation.contract("topic: orders").only()
    with pytest.raises(ValueError, match="frozen"):
        contract.topic = "other"


def test_an_upsert_table_is_late_by_its_own_target_lag(installation):
    """Given a merge that may wait for an hour, then the limits of the minutes in which rows are appended do not judge it."""
    contract = installation.contract("topic: orders\nupsert: {keys: [id], target_lag: 1h}").only()
    (merged,) = upsert_tables([contract]).values()
    assert contract.freshness.fail == timedelta(minutes=10)
    limits = merged.contract.freshness
    assert (limits.warn, limits.fail) == (timedelta(hours=2), timedelta(hours=10))


@pytest.mark.parametrize(
    ("says", "lag", "warn", "fail"),
    [
        ("", 2, 4, 10),
        ("freshness: {warn: 2m, fail: 5m}", 1, 2, 5),
        ("freshness: {warn: 2m, fail: 5m}", 2, 4, 5),
        ("freshness: {warn: 2m, fail: 3m}", 2, 3, 3),
    ],
)
def test_an_upsert_table_keeps_the_limits_of_its_contract_and_is_not_warned_of_while_it_waits_its_turn(
    installation, says, lag, warn, fail
):
    """Given a target lag within `warn`, then `fail` is the contract's, and `warn` leaves room above the lag, as far as `fail`."""
    contract = installation.contract(f"topic: orders\n{says}\nupsert: {{keys: [id], target_lag: {lag}m}}")
    (merged,) = upsert_tables([contract.only()]).values()
    limits = merged.contract.freshness
    assert (limits.warn, limits.fail) == (timedelta(minutes=warn), timedelta(minutes=fail))


@pytest.mark.parametrize("said", ["{keys: [id], table: }", "[id]"])
def test_an_upsert_table_without_a_name_has_its_default(installation, said):
    contract = installation.contract(f"topic: orders\nupsert: {said}").only()
    assert contract.upsert.table == "lake.orders_current"
