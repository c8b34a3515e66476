"""Every kind of mistake is refused with its file, its line, its key and, where there is one, the nearest valid word."""

import pytest

from tests.unit.contract.conftest import PLATFORM

# (contract text after its first line `topic: orders`, line, key, part of the message, suggestion)
MISTAKES = [
    ("tabel: shop.orders", 2, "tabel", "unknown key", "table"),
    ("format: json", 2, "format", "unknown key", "value.format or key.format"),
    ("version: 2", 2, "version", "unknown key", "value.version"),
    ("start: latest", 2, "start", "unknown key", "ingest.start"),
    ("maintenance: {max_bytes: 1GB}", 2, "maintenance.max_bytes", "unknown key", "compaction.max_bytes"),
    ("upsert: order_id", 2, "upsert", "must be a mapping, or a list of keys", "[order_id]"),
    ("quarantine: {fail: nan}", 2, "quarantine.fail", "must be a finite number", None),
    ("value: {fromat: avro}", 2, "value.fromat", "unknown key", "format"),
    (
        "maintenance:\n  compaction:\n    max_byts: 1GB",
        4,
        "maintenance.compaction.max_byts",
        "unknown key",
        "max_bytes",
    ),
    ("columns:\n  email:\n    tag: [pii]", 4, "columns.email.tag", "unknown key", "tags"),
    ("ingest:\n  start: {offset: {0: 1}}", 3, "ingest.start.offset", "unknown key", "offsets"),
    (
        "ingest:\n  start: {offsets: {0: 1}, consumer_group: x}",
        3,
        "ingest.start",
        "has two forms: give either offsets or consumer_group",
        None,
    ),
    ("quality:\n  - {column: a, chek: not_null}", 3, "quality.0.chek", "unknown key", "check"),
    ("value: {format: avor}", 2, "value.format", "'avor' is none of registry, avro,", "avro"),
    (
        "schema_changes: {add_column: reveiw}",
        2,
        "schema_changes.add_column",
        "is none of apply, review",
        "review",
    ),
    ("ingest: {start: earlist}", 2, "ingest.start", "'earlist' is none of earliest, latest", "earliest"),
    ("format_version: 4", 2, "format_version", "4 is none of 2, 3", None),
    ("description: [a]", 2, "description", "must be text, not a list", None),
    ("sort_by: customer_id", 2, "sort_by", "must be a list", None),
    ("owners: team:orders", 2, "owners", "must be a mapping", None),
    ("ingest: {max_records: many}", 2, "ingest.max_records", "'many' must be a whole number", None),
    ("ingest: {max_records: true}", 2, "ingest.max_records", "True is not a number", None),
    ("ingest: {max_records: 0}", 2, "ingest.max_records", "0 must be at least 1", None),
    (
        "maintenance: {compaction: {min_input_files: 1}}",
        2,
        "maintenance.compaction.min_input_files",
        "1 must be at least 2",
        None,
    ),
    ("quarantine: {fail: 5}", 2, "quarantine.fail", "5 must be at most 1", None),
    ("lane:", 2, "lane", "is empty: give it a value, or leave the key out", None),
    ("target_lag: 5 sec", 2, "target_lag", "'5 sec' is not a duration", "5s"),
    ("target_lag: 60", 2, "target_lag", "60 is not a duration", "60s"),
    ("target_lag: 0s", 2, "target_lag", "must be more than nothing", None),
    (
        "maintenance: {compaction: {max_bytes: 20G}}",
        2,
        "maintenance.compaction.max_bytes",
        "'20G' is not a size",
        "20GB",
    ),
    (
        "ingest: {commit_to_group: 'x-{tabel}'}",
        2,
        "ingest.commit_to_group",
        "nothing but {table} stands for something",
        "x-{table}",
    ),
    ("partition_by: [dya(ordered_at)]", 2, "partition_by.0", "no such transform", "day(ordered_at)"),
    (
        "partition_by:\n  - day(a)\n  - bucket(b)",
        4,
        "partition_by.1",
        "needs a whole number",
        "bucket(16, b)",
    ),
    (
        "partition_by: ['bucket(99999999999, id)']",
        2,
        "partition_by.0",
        "the number must lie between 1 and 2147483647",
        None,
    ),
    ("partition_by: ['truncate(0, id)']", 2, "partition_by.0", "must lie between 1 and", "truncate(16, id)"),
    ("partition_by: [day(a), hour(a)]", 2, "partition_by.1", "repeats another transform of a", None),
    ("partition_by: [day(a..b)]", 2, "partition_by.0", "is not a column name", None),
    ("partition_by: ['bucket(4, a b)']", 2, "partition_by.0", "dotted path to one: `a b` is", None),
    ("partition_by: [a b]", 2, "partition_by.0", "dotted path to one: `a b` is", None),
    ("event_time: a..b", 2, "event_time", "'a..b' is not a column name", None),
    ("runbook: 'javascript:alert(1)'", 2, "runbook", "is no link that a page may have: http", None),
    ("owners: {data: orders}", 2, "owners.data", "'orders' is not an owner", "team:orders"),
    ("approvers: [teem:orders]", 2, "approvers.0", "'teem:orders' is not an owner", "team:orders"),
    ("tags: {a b: c}", 2, "tags.a b", "'a b' is not a tag name", None),
    ("tags: {a: 'c d'}", 2, "tags.a", "'c d' is not a tag value", None),
    ("tags: {tidemark/role: x}", 2, "tags.tidemark/role", "set themselves", None),
    ("table: orders", 2, "table", "'orders' is not a table name", None),
    ("table: shop.order-lines", 2, "table", "'shop.order-lines' is not a table name", None),
    ("table: Kafka.orders", 2, "table", "namespace 'Kafka' is reserved", None),
    ("table: lake.tidemark_operations", 2, "table", "is the name of the operations log", None),
    (
        "maintenance: {compaction: {target_file_size: 0}}",
        2,
        "maintenance.compaction.target_file_size",
        "nothing",
        "256MB",
    ),
    ("topics: '^a$'", 2, "topics", "stands beside `topic`", None),
    ("cluster: mian", 2, "cluster", "has no Kafka cluster 'mian'", "main"),
    ("lane: defalt", 2, "lane", "has no lane 'defalt'", "default"),
    (
        "ingest: {start: {offsets: {0: 1, '00': 5}}}",
        2,
        "ingest.start.offsets",
        "names a partition twice",
        None,
    ),
    (
        "ingest: {start: 123}",
        2,
        "ingest.start",
        "a number alone does not say what it counts: a time is written",
        None,
    ),
    ("ingest: {start: -1.5}", 2, "ingest.start", "offsets as {offsets: {0: 123}}", None),
    ("ingest: {start: '1735689600'}", 2, "ingest.start", "a number alone does not say", None),
    ("ingest: {start: 2026-01-01}", 2, "ingest.start", "is not a time with its zone", None),
    ("ingest: {start: 2026-01-01T00:00:00}", 2, "ingest.start", "is not a time with its zone", None),
    (
        "ingest:\n  start:\n    offsets:\n      0: many",
        5,
        "ingest.start.offsets.0",
        "must be a whole number",
        None,
    ),
    (
        "value: {format: string, subject: a}",
        2,
        "value.subject",
        "format string has no schema in the registry",
        None,
    ),
    ("quarantine: {warn: 0.5, fail: 0.1}", 2, "quarantine.warn", "is above quarantine.fail (0.1)", None),
    ("freshness: {warn: 10m, fail: 5m}", 2, "freshness.warn", "is above freshness.fail (5m)", None),
    (
        "maintenance: {snapshots: {max_count: 5, min_keep: 20}}",
        2,
        "maintenance.snapshots.min_keep",
        "is above max_count (5)",
        None,
    ),
    ("maintenance: {orphans: {older_than: 1h}}", 2, "maintenance.orphans.older_than", "is below 1d", "1d"),
    (
        "table_properties: {format-version: 2}",
        2,
        "table_properties.format-version",
        "a key of its own",
        "format_version",
    ),
    (
        "table_properties: {tidemark.keys: a}",
        2,
        "table_properties.tidemark.keys",
        "set by Tidemark itself",
        None,
    ),
    (
        "table_properties:\n  write.distribution-mode: range",
        3,
        "table_properties.write.distribution-mode",
        "twice",
        "hash",
    ),
    (
        "table_properties: {write.target-file-size-bytes: 256MB}",
        2,
        "table_properties.write.target-file-size-bytes",
        "256MB is no number of bytes",
        "268435456",
    ),
    (
        "table_properties: {write.parquet.compression-codec: zst}",
        2,
        "table_properties.write.parquet.compression-codec",
        "zst is none of zstd, gzip",
        "zstd",
    ),
    (
        "table_properties: {write.merge.mode: copyonwrite}",
        2,
        "table_properties.write.merge.mode",
        "is none of copy-on-write",
        "copy-on-write",
    ),
    (
        "table_properties: {write.parquet.bloom-filter-enabled.column.id: yes please}",
        2,
        "table_properties.write.parquet.bloom-filter-enabled.column.id",
        "neither true nor false",
        None,
    ),
    (
        "table_properties: {commit.retry.num-retries: many}",
        2,
        "table_properties.commit.retry.num-retries",
        "no whole number",
        None,
    ),
    (
        "table_properties: {write.metadata.metrics.default: truncate}",
        2,
        "table_properties.write.metadata.metrics.default",
        "none of none, counts",
        None,
    ),
    ("lane: default\nlane: default", 3, "lane", "is given twice, first on line 2", None),
    ("<<: {a: b}", 2, "<<", "merge keys are not read", None),
    (
        "schema_changes: {incompatible: apply}",
        2,
        "schema_changes.incompatible",
        "no column holds both",
        "review",
    ),
    ("owners: !secret x", 2, "owners", "the tag !secret is not understood", None),
    ("runbook: 'https://${HOSTS}/'", 2, "runbook", "the environment has no HOSTS", "HOST"),
    ("runbook: '${}'", 2, "runbook", "${} is not a reference to the environment", None),
    ("runbook: 'a ${HOST'", 2, "runbook", "${HOST is not a reference to the environment", None),
    ("description: a: b", 2, "", "is not YAML: mapping values are not allowed", None),
    ("sort_by: [a", 3, "", "is not YAML", None),
    ("ingest:\n\tstart: earliest", 3, "", "any token: a tab (YAML indents with spaces)", None),
    ("description: @team", 2, "", "begins with @, % or ` and needs quotes", None),
    ("key: {fields: [a, b]}", 2, "key.fields", "a key of format raw stands for one column, not for 2", None),
    ("key: {format: avro, fields: [a.b]}", 2, "key.fields.0", "keys fill whole columns", None),
    ("key: {format: avro, fields: [a, a]}", 2, "key.fields.1", "a is named twice", None),
    (
        "value: {format: json, fields: {order_id: bigint}}\nkey: {format: string, fields: [order_di]}",
        3,
        "key.fields.0",
        "there is no column order_di (did you mean order_id?)",
        None,
    ),
    (
        "value: {format: json, fields: {id: bigint}}\nkey: {fields: [id]}",
        3,
        "key.format",
        "raw bytes do not say how they hold a long",
        "string",
    ),
    ("value: {format: raw, envelope: debezium}", 2, "value.envelope", "format raw has no envelope", None),
    ("value: {format: protobuf, envelope: debezium}", 2, "value.envelope", "read from Avro", None),
    (
        "value: {format: json, envelope: debezium, fields: {_cdc: string}}",
        2,
        "value.fields._cdc",
        "the name is reserved",
        None,
    ),
    ("value: {format: json, fields: {_cdc: string}}", 2, "value.fields._cdc", "the name is reserved", None),
    (
        "value: {format: json, envelope: debezium, fields: {_cdc.op: string}}",
        2,
        "value.fields._cdc.op",
        "clashes with a field of a struct",
        None,
    ),
    (
        "value: {format: json, envelope: debezium_flat, fields: {id: bigint, __deleted: string}}",
        2,
        "value.fields.__deleted",
        "what begins with __ is no column of the row: it is in _cdc",
        None,
    ),
    ("---\ntopic: b", 2, "", "is not YAML: a second document begins", None),
]


@pytest.mark.parametrize(("text", "line", "key", "message", "suggestion"), MISTAKES)
def test_a_mistake_in_a_contract(installation, text, line, key, message, suggestion):
    installation.platform(PLATFORM).contract(f"topic: orders\n{text}\n")
    [found] = installation.problems(HOST="x")
    assert (found.file, found.line, found.key) == ("contracts/orders.yaml", line, key)
    assert message in found.message
    assert found.suggestion == suggestion


def test_a_contract_without_a_topic(installation):
    found = installation.contract("\n\ntable: shop.orders\n").problem()
    assert (found.file, found.line, found.key) == ("contracts/orders.yaml", 3, "topic")
    assert "is missing" in found.message


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_contract(installation, text):
    assert installation.contract(text).problem().key == "topic"


def test_a_contract_that_is_no_mapping(installation):
    assert installation.contract("- topic: orders").problem().message == "must be a mapping of keys to values"


def test_a_number_beside_a_mistake_is_no_mistake(installation):
    """Given numbers that Python would spell otherwise, then what is wrong beside them is all that is said."""
    numbers = "quarantine: {warn: 0.10, fail: 0.20}\ningest: {max_records: 1_000_000}"
    problem = installation.contract(f"topic: orders\ntabel: shop.orders\n{numbers}").problem()
    assert (problem.key, problem.message) == ("tabel", "unknown key")


def test_an_alias_that_contains_itself(installation):
    found = installation.contract("topic: orders\nsort_by: &a [*a]").problems()
    assert (found[0].line, found[0].message) == (2, "an alias contains itself")


def test_a_file_that_is_not_text(installation):
    installation.contract("").root.joinpath("contracts", "orders.yaml").write_bytes(b"\xff\xfe\x00")
    assert installation.problem().message == "is not UTF-8 text"


@pytest.mark.parametrize(
    ("text", "key", "message", "suggestion"),
    [
        ("topics: '^a(['", "topics", "is not a regular expression", None),
        ("topics: 'a{1,9999999999}'", "topics", "is too large a regular expression", None),
        ("topics: '^(?P<name>.*)$'\ntable: shop.{nam}", "table", "{nam} is no named group", "{name}"),
        ("topics: '^(?P<name>.*)$'\ntable: shop.orders", "table", "one table for many topics", None),
        ("topics: '^(?P<name>.*)$'\ntable: kafka.{name}", "table", "namespace 'kafka' is reserved", None),
        ("topics: '^(?P<name>.*)$'\ntable: '{name}'", "table", "is not a table name", None),
    ],
)
def test_a_mistake_in_a_pattern(installation, text, key, message, suggestion):
    found = installation.contract(text).problem()
    assert found.key == key
    assert message in found.message
    assert found.suggestion == suggestion


def test_two_contracts_on_one_table_are_refused_naming_both(installation):
    installation.contract("topic: a\ntable: shop.orders", "one.yaml")
    found = installation.contract("topic: b\ntable: shop.orders", "two.yaml").problem()
    assert (found.file, found.line, found.key) == ("contracts/two.yaml", 2, "table")
    assert "table shop.orders is also made by" in found.message
    assert "one.yaml (topic a)" in found.message


def test_names_equal_but_for_case_are_refused_naming_both(installation):
    installation.contract("topic: a\ntable: shop.orders", "one.yaml")
    found = installation.contract("topic: b\ntable: shop.Orders", "two.yaml").problem()
    assert "differs only by case from shop.orders, which is made by" in found.message
    assert "one.yaml" in found.message


@pytest.mark.parametrize(
    ("text", "line", "key", "room"),
    [
        ("topic: a\ntable: lake.{}", 2, "table", 235),
        ("topic: {}", 1, "table", 235),
        ("topic: a\nevents:\n  shop.Paid: lake.{}", 3, "events.shop.Paid", 235),
        ("topic: a\nupsert:\n  keys: [k]\n  table: lake.{}", 4, "upsert.table", 247),
    ],
)
def test_a_name_leaves_room_for_those_made_of_it(installation, text, line, key, room):
    """Given the longest name whose quarantines and memory of deletes have names too, then one character more is refused."""
    assert installation.contract(text.format("n" * room)).load().contracts
    found = installation.contract(text.format("n" * (room + 1))).problem()
    assert (found.line, found.key) == (line, key)
    assert f"has {room + 1} characters: name a table with {room} at most" in found.message


@pytest.mark.parametrize("companion", ["quarantine", "backfill", "backfill_quarantine"])
def test_the_companions_of_another_contract_s_table_are_taken(installation, companion):
    installation.contract("topic: a\ntable: shop.orders", "one.yaml")
    found = installation.contract(f"topic: b\ntable: shop.orders_{companion}", "two.yaml").problem()
    assert (found.file, found.line) == ("contracts/two.yaml", 2)
    assert f"shop.orders_{companion} is also made by" in found.message


@pytest.mark.parametrize(
    "other", ["shop.orders", "shop.Orders", "shop.orders_quarantine", "shop.orders_backfill"]
)
def test_an_upsert_table_is_a_table_of_its_own(installation, other):
    found = installation.contract(
        f"topic: a\ntable: shop.orders\nupsert: {{keys: [k], table: {other}}}"
    ).problem()
    assert (found.line, found.key, found.message) == (
        3,
        "upsert.table",
        f"table {other} is another table of this contract",
    )


def test_the_memory_of_deletes_is_no_append_table(installation):
    """Be it that deletes are remembered or that this waits for another edit of the contract."""
    for deletes in ("hard", "soft"):
        content = f"topic: a\ntable: shop.orders_deleted\nupsert: {{keys: [k], table: shop.orders, deletes: {deletes}}}"
        assert "shop.orders_deleted is another table" in installation.contract(content).problem().message


@pytest.mark.parametrize(
    ("value", "upsert", "key", "message", "suggestion"),
    [
        ("json, fields: {id: bigint}", "[ID]", "upsert.keys.0", "there is no column ID", "id"),
        (
            "json, fields: {id: bigint}",
            "{keys: [id], order_by: [ts]}",
            "upsert.order_by.0",
            "no column ts",
            None,
        ),
        ("json, fields: {s: 'struct<a: int>'}", "[s]", "upsert.keys.0", "which cannot be compared", None),
        ("string", "[_kafka.key, id]", "upsert.keys.1", "there is no column id", None),
        ("avro", "[_kafka.kee]", "upsert.keys.0", "there is no column _kafka.kee", "_kafka.key"),
        ("avro", "{keys: [a], order_by: []}", "upsert.order_by", "must not be empty", None),
        (
            "json, envelope: debezium_flat, fields: {id: bigint}",
            "[idd]",
            "upsert.keys.0",
            "there is no column idd",
            "id",
        ),
        (
            "json, envelope: debezium, fields: {id: bigint}",
            "{keys: [id], order_by: [lsn]}",
            "upsert.order_by.0",
            "there is no column lsn",
            None,
        ),
        ("json, envelope: debezium", "[id]", "upsert.keys.0", "there is no column id", None),
        (
            "json, fields: {id: bigint, _Is_Deleted: boolean}",
            "{keys: [id], deletes: soft}",
            "upsert.deletes",
            "a column _is_deleted, and _Is_Deleted is one of the topic",
            "hard",
        ),
        (
            "avro",
            "{keys: [id], partition_by: [day(a), hour(a)]}",
            "upsert.partition_by.1",
            "hour(a) repeats another transform of a",
            None,
        ),
    ],
)
def test_columns_that_cannot_be_there_are_named_offline(
    installation, value, upsert, key, message, suggestion
):
    found = installation.contract(f"topic: a\nvalue: {{format: {value}}}\nupsert: {upsert}").problem()
    assert (found.line, found.key, found.suggestion) == (3, key, suggestion)
    assert message in found.message


@pytest.mark.parametrize(
    ("value", "layout", "key", "message"),
    [
        (
            "json, fields: {at: timestamp}",
            "partition_by: [day(att)]",
            "partition_by.0",
            "day(att): there is no column att (did you mean at?)",
        ),
        (
            "json, fields: {id: bigint}",
            "partition_by: [day(id)]",
            "partition_by.0",
            "day(id): day does not apply to long",
        ),
        (
            "json, fields: {s: 'struct<a: int>'}",
            "sort_by: [s.a, s]",
            "sort_by.1",
            "s is struct<a: int, _extra: string>, which has no order",
        ),
        ("string", "event_time: at", "event_time", "there is no column at"),
        (
            "json, envelope: debezium, fields: {id: bigint}",
            "sort_by: [idd]",
            "sort_by.0",
            "there is no column idd (did you mean id?)",
        ),
        (
            "json, fields: {id: bigint}",
            "upsert: {keys: [id], partition_by: [id, 'day(id)']}",
            "upsert.partition_by.1",
            "day(id): day does not apply to long",
        ),
        (
            "json, fields: {id: bigint}",
            "upsert: {keys: [id], sort_by: [idd]}",
            "upsert.sort_by.0",
            "there is no column idd (did you mean id?)",
        ),
    ],
)
def test_a_layout_that_declared_columns_cannot_give_is_refused_offline(
    installation, value, layout, key, message
):
    found = installation.contract(f"topic: a\nvalue: {{format: {value}}}\n{layout}").problem()
    assert (found.line, found.key, found.message) == (3, key, message)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{column: id, check: matches, pattern: x}", "matches does not apply to id, which is long"),
        ("{column: id, check: length, max: 3}", "length does not apply to id, which is long"),
        ("{column: id, check: in_set, values: [new]}", "id is long: values: 'new' is no number"),
        ("{column: id, check: in_range, min: new}", "id is long: min: 'new' is no number"),
        (
            "{column: _kafka.key, check: in_range, min: 1}",
            "in_range does not apply to _kafka.key, which is binary",
        ),
    ],
)
def test_a_rule_that_does_not_fit_declared_columns_is_refused_offline(installation, rule, message):
    value = "value: {format: json, fields: {id: bigint}}"
    found = installation.contract(
        f"topic: a\n{value}\nquality:\n  - {{column: id, check: not_null}}\n  - {rule}"
    ).problem()
    assert (found.line, found.key, found.message) == (5, "quality.1", message)


def test_a_layout_on_what_every_table_has_is_fine(installation):
    installation.contract(
        "topic: a\nvalue: {format: json, fields: {at: timestamp}}\nevent_time: at\n"
        "partition_by: [day(_kafka.timestamp), 'bucket(4, _kafka.key)']\nsort_by: [at]"
    )
    installation.contract("topic: b\nvalue: {format: avro}\npartition_by: [day(att)]", "b.yaml")
    installation.contract(
        "topic: c\nvalue: {format: json, envelope: debezium, fields: {id: bigint}}\n"
        "upsert: {keys: [id], order_by: [_cdc.pos], deletes: soft, partition_by: [_is_deleted, day(_cdc.ts)]}",
        "c.yaml",
    )
    assert [each.topic for each in installation.platform(PLATFORM).load().contracts] == ["a", "b", "c"]


def test_every_problem_of_every_file_is_reported_at_once_and_in_order(installation):
    installation.platform(PLATFORM + "lanes: {fast: {pol: 1s}}\ndefaults: {target_lag: 5x}\n")
    installation.contract("owners: {data: x}", "_defaults.yaml")
    installation.contract("topic: a\nlane: fats\nvalue: {format: avor}\npartition_by: [dya(a)]", "a.yaml")
    installation.contract("topic: [", "b.yaml").contract("tabel: x.y", "c/c.yaml")
    assert [(each.file, each.line, each.key) for each in installation.problems()] == [
        ("contracts/_defaults.yaml", 1, "owners.data"),
        ("contracts/a.yaml", 2, "lane"),
        ("contracts/a.yaml", 3, "value.format"),
        ("contracts/a.yaml", 4, "partition_by.0"),
        ("contracts/b.yaml", 2, ""),
        ("contracts/c/c.yaml", 1, "tabel"),
        ("contracts/c/c.yaml", 1, "topic"),
        ("platform.yaml", 5, "lanes.fast.pol"),
        ("platform.yaml", 6, "defaults.target_lag"),
    ]


def test_a_mistake_in_defaults_is_blamed_once_on_their_file(installation):
    installation.contract("target_lag: soon", "_defaults.yaml")
    for name in ("a", "b", "c"):
        installation.contract(f"topic: {name}", f"{name}.yaml")
    assert installation.problem().file == "contracts/_defaults.yaml"


def test_defaults_are_checked_even_when_no_contract_uses_them(installation):
    found = installation.contract("tabel: x", "shop/_defaults.yaml").problem()
    assert (found.file, found.suggestion) == ("contracts/shop/_defaults.yaml", "table")


def test_a_topic_is_no_default(installation):
    found = installation.contract("topic: orders", "_defaults.yaml").problem()
    assert (found.key, found.message) == ("topic", "is not a default: it says what one contract is about")


def test_a_file_that_would_be_overlooked_is_refused(installation):
    found = installation.contract("target_lag: 1m", "_default.yaml").problem()
    assert (found.file, found.suggestion) == ("contracts/_default.yaml", "_defaults.yaml")


def test_a_contract_whose_format_needs_a_registry_that_is_not_there(installation):
    installation.platform(PLATFORM.replace('schema_registry: {main: {url: "http://registry:8081"}}\n', ""))
    installation.contract("topic: a\nvalue: {format: raw}", "a.yaml")
    found = installation.contract("topic: b", "b.yaml").problem()
    assert (found.file, found.key) == ("contracts/b.yaml", "value.format")
    assert "needs a schema registry" in found.message


FIELDS = [
    ("{id: bigin}", "value.fields.id", "bigin is no type of a table"),
    ("{id: float}", "value.fields.id", "declare double or a decimal"),
    ("{a: 'array<binary>'}", "value.fields.a", "JSON has no bytes"),
    ("{a: 'map<int, string>'}", "value.fields.a", "keys of a JSON object are strings"),
    ("{a: int, A: int}", "value.fields.A", "but for case"),
    ("{_extra: string}", "value.fields._extra", "reserved"),
    ("{_kafka: string}", "value.fields._kafka", "reserved"),
    ("{_row_id: string}", "value.fields._row_id", "reserved for Iceberg's metadata"),
    ("{'1': int, _1: int}", "value.fields._1", "both spelled _1 in data files"),
    ("{}", "value.fields", "names no field"),
]


@pytest.mark.parametrize(("fields", "key", "message"), FIELDS)
def test_declared_fields_must_be_types_that_json_can_fill(installation, fields, key, message):
    found = installation.contract(f"topic: orders\nvalue: {{format: json, fields: {fields}}}\n").problem()
    assert (found.line, found.key) == (2, key)
    assert message in found.message


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("{types: {timestamp_nanos: string}}", "value.types.timestamp_nanos"),
        ("{types: {timestamp_nano: long}}", "value.types.timestamp_nano"),
        ("{format: avro, types: {timestamp_nanos: long}}", "value.types"),
    ],
)
def test_choices_of_types_are_those_that_the_rules_leave_open(installation, value, key):
    found = installation.contract(f"topic: orders\nvalue: {value}\n").problem()
    assert (found.line, found.key) == (2, key)


def test_declared_fields_are_accepted(installation):
    text = (
        "topic: orders\nvalue: {format: json, fields: {id: bigint, at: timestamp, tags: 'array<string>'}}\n"
    )
    assert installation.contract(text).load().contracts[0].value.fields["tags"] == "array<string>"


@pytest.mark.parametrize("topic", ["2024-orders", "tidemark_operations"])
def test_a_topic_whose_name_is_none_of_a_table_has_one_all_the_same(installation, topic):
    (made,) = installation.contract(f"topic: {topic}\n").load().contracts
    assert made.table == f"lake.t_{topic.replace('-', '_')}"


def test_a_contract_that_is_not_read_for_its_suffix_is_named(installation):
    """Given a file that a person takes for a contract, when it is not read, then it is said."""
    found = installation.contract("topic: orders\n", "orders.YAML").problem()
    assert (found.file, found.suggestion) == ("contracts/orders.YAML", "orders.yaml")


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(installation):
    """Given a few lines that stand for ten million values, when they are read, then they are refused at once."""
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdef", "bcdefg", strict=True)]
    problem = installation.contract("\n".join([*lines, "topic: *g"])).problem()
    assert problem.message == "has more than 100,000 values, those of its aliases counted"


def test_a_file_with_too_many_values_is_told_so_once(installation):
    """Given 51,000 columns with a description, then their number is the one problem of the file, and none of its values is called empty."""
    columns = "\n".join(f"  c{number}: {{description: x}}" for number in range(51_000))
    problem = installation.contract(f"topic: orders\ncolumns:\n{columns}\n").problem()
    assert problem.message.startswith("has more than 100,000 values")
    assert problem.line == 2 + 49_999


def test_columns_of_quality_rules_that_cannot_be_there_are_named_offline(installation):
    """Given declared fields, when a rule names another column, then check says so with the nearest one."""
    installation.contract("""\
        topic: orders
        value: {format: json, fields: {id: bigint, 'at': timestamp}}
        quality:
          - {check: not_null, column: idd}
          - {check: unique, columns: [id, ta]}
          - {check: not_null, column: _kafka.offset}
        """)
    told = [(each.line, each.key, each.message, each.suggestion) for each in installation.problems()]
    assert told == [
        (4, "quality.0.column", "there is no column idd", "id"),
        (5, "quality.1.columns.1", "there is no column ta", None),
    ]
    installation.contract("topic: orders\nquality: [{check: not_null, column: idd}]")
    assert installation.only().quality[0].column == "idd"


@pytest.mark.parametrize("start", ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+01:00"])
def test_a_start_that_no_clock_of_utc_tells_is_refused(installation, start):
    problem = installation.contract(f"topic: orders\ningest: {{start: '{start}'}}").problem()
    assert (problem.key, problem.message) == ("ingest.start", "is in no year from 1 to 9999 of UTC")


def test_a_folder_that_leads_back_to_itself_is_read_once(installation):
    installation.contract("topic: orders\n")
    (installation.root / "contracts" / "again").symlink_to(installation.root / "contracts")
    assert installation.problem().file == "contracts/again"


def test_properties_of_a_column_are_not_taken_for_what_its_name_sounds_like(installation):
    said = {
        "write.metadata.metrics.column.size-bytes": "full",
        "write.metadata.metrics.column.is-enabled": "none",
        "write.metadata.metrics.column.max-ms": "counts",
        "write.parquet.bloom-filter-fpp.column.n-bytes": "'0.01'",
        "write.parquet.bloom-filter-enabled.column.n-bytes": "true",
    }
    text = "topic: a\ntable_properties:\n" + "".join(f"  {key}: {value}\n" for key, value in said.items())
    assert installation.contract(text).only().table_properties.keys() == said.keys()
    wrong = text.replace("n-bytes: true", "n-bytes: 5")
    assert "neither true nor false" in installation.contract(wrong).problem().message


def test_what_dagster_could_not_load_is_refused(installation):
    """Rule: what passes here lets the definitions load; one contract must not take all of them down."""
    problem = installation.contract("topic: a\nfreshness: {silence: 30s}").problem()
    assert "below 1m" in problem.message
    problem = installation.contract('topic: a\nupsert: {keys: [id], table: ""}').problem()
    assert "is not a table name" in problem.message


def test_two_tables_of_one_topic_do_not_share_a_consumer_group(installation):
    """Given a group in _defaults.yaml, when two contracts of a topic would both tell it, then that is one problem."""
    installation.contract("ingest: {commit_to_group: lag}", "_defaults.yaml")
    for topic, table in (("a", "one"), ("a", "two"), ("b", "three")):
        installation.contract(f"topic: {topic}\ntable: lake.{table}", f"{table}.yaml")
    problem = installation.problem()
    assert (problem.file, problem.line) == ("contracts/_defaults.yaml", 1)
    assert (problem.key, problem.suggestion) == ("ingest.commit_to_group", "lag-{table}")
    assert "lag is told of topic a for lake.one and for lake.two" in problem.message
    installation.contract("ingest: {commit_to_group: 'lag-{table}'}", "_defaults.yaml")
    assert len(installation.load().contracts) == 3


def test_a_mistyped_key_is_heeded_by_the_rules_of_others(installation):
    """Given a format whose key is mistyped, then a line that is right with it is not blamed, and one that is wrong with it is."""
    installation.contract("topic: orders\nvalue:\n  formt: json\n  fields: {id: bigint}")
    assert [each.key for each in installation.problems()] == ["value.formt"]
    installation.contract("topic: orders\nvalue:\n  formt: json\n  fields: {id: bigit}")
    found = [(each.line, each.key) for each in installation.problems()]
    assert found == [(3, "value.formt"), (4, "value.fields.id")]
