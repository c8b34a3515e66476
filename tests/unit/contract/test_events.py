"""Rule: several record types in one topic become one contract for each; what cannot be told apart is refused."""

import pytest

SHOP = """\
topic: shop
events: {shop.Placed: shop.placed, shop.Paid: shop.paid}
target_lag: 30s
"""
WRONG = [
    ("table: shop.all", "table", "stands beside `events`"),
    ("value: {format: json}", "value.format", "does not say of which type a record is"),
    ("value: {format: raw}", "value.format", "does not say of which type a record is"),
    ("value: {schema: by_latest_schema}", "value.schema", "reads every record as one type"),
    ("value: {message: shop.Placed}", "value.message", "names the messages"),
    ("ingest: {commit_to_group: lag}", "ingest.commit_to_group", "one group for several tables of one topic"),
]


def test_each_event_is_a_contract_of_its_own(installation):
    contracts = installation.contract(SHOP).load().contracts
    assert {c.table: (c.topic, c.event) for c in contracts} == {
        "shop.placed": ("shop", "shop.Placed"),
        "shop.paid": ("shop", "shop.Paid"),
    }
    assert {c.target_lag.total_seconds() for c in contracts} == {30}
    assert {c.quarantine_table for c in contracts} == {"shop.placed_quarantine", "shop.paid_quarantine"}
    assert all(c.value.subject is None for c in contracts)
    assert len({c.digest for c in contracts}) == 2


def test_two_contracts_do_not_share_a_table(installation):
    installation.contract("topic: shop\nevents: {a.A: shop.orders}")
    installation.contract("topic: orders\ntable: shop.Orders", name="other.yaml")
    [problem] = installation.problems()
    assert problem.key == "table"
    assert problem.message.startswith(
        "table shop.Orders differs only by case from shop.orders, which is made by"
    )


@pytest.mark.parametrize(("text", "key", "message"), WRONG)
def test_what_cannot_be_routed_is_refused(installation, text, key, message):
    events = "topic: shop\nevents: {shop.Placed: shop.placed, shop.Paid: shop.paid}\n"
    [problem] = installation.contract(f"{events}{text}\n").problems()
    assert (problem.key, message in problem.message) == (key, True)


@pytest.mark.parametrize(
    ("events", "key", "message"),
    [
        ("{}", "events", "routes nothing"),
        ("{a.A: orders}", "events.a.A", "is not a table name"),
        ("{a.A: shop.t, a.B: shop.T}", "events.a.B", "is the table of a.A already"),
    ],
)
def test_routes_name_tables_each_once(installation, events, key, message):
    [problem] = installation.contract(f"topic: shop\nevents: {events}\n").problems()
    assert (problem.key, message in problem.message) == (key, True)


def test_a_pattern_has_no_events(installation):
    text = "topics: '^shop_(?P<name>.*)$'\nevents: {a.A: shop.t}\n"
    assert "needs one topic" in installation.contract(text).problem().message


@pytest.mark.parametrize(
    ("value", "key", "message"),
    [
        ("{schema: pinned}", "value.version", "needs a version"),
        ("{version: 3}", "value.version", "is for schema: pinned only"),
        ("{schema: by_latest_schema, format: protobuf}", "value.message", "which message it is"),
        ("{schema: pinned, version: 2, format: protobuf}", "value.message", "which message it is"),
        ("{schema: by_latest_schema, format: avro, message: a.B}", "value.message", "is for Protobuf only"),
        ("{schema: by_latest_schema, format: json}", "value.schema", "has no schema in the registry"),
    ],
)
def test_values_without_a_header_need_everything_that_says_what_they_are(installation, value, key, message):
    [problem] = installation.contract(f"topic: shop\nvalue: {value}\n").problems()
    assert (problem.key, message in problem.message) == (key, True)


def test_the_subject_of_values_without_a_header_is_the_topics_unless_named(installation):
    latest = installation.contract("topic: shop\nvalue: {schema: by_latest_schema}\n").only()
    assert (latest.value.subject, latest.value.schema_mode) == ("shop-value", "by_latest_schema")
