"""Names that Dagster would make one are refused by `tidemark check`: else no definition at all would load."""

import pytest

RULE = "quality: [{{name: {}, sql: 'true'}}]"


@pytest.mark.parametrize(
    ("one", "two", "key", "name"),
    [
        ("table: tc.a__b", "table: tc__a.b", "table", "tc__a__b"),
        ("table: shop.orders", "table: shop.orders_reconciliation", "table", "shop__orders_reconciliation"),
        ("table: shop.orders", "table: shop.orders_schema_review", "table", "shop__orders_schema_review"),
        (
            f"table: shop.orders\n{RULE.format('eu_small')}",
            f"table: shop.orders_eu\n{RULE.format('small')}",
            "quality.0",
            "shop__orders_eu_small",
        ),
        (
            "table: shop.a\nupsert: {keys: [id], table: shop.o__p}",
            "table: shop.b\nupsert: {keys: [id], table: shop__o.p}",
            "upsert.table",
            "shop__o__p",
        ),
    ],
)
def test_two_contracts_that_meet_in_a_step_are_refused_naming_both(installation, one, two, key, name):
    installation.contract(f"topic: a\n{one}", "one.yaml")
    found = installation.contract(f"topic: b\n{two}", "two.yaml").problem()
    assert (found.file, found.key) == ("contracts/two.yaml", key)
    assert found.line is not None
    assert found.line >= 2
    assert "one.yaml:" in found.message
    assert f"both {name} in Dagster: give one of them another name" in found.message


@pytest.mark.parametrize(
    "two",
    [
        "table: shop.orders_files",
        "table: shop.orders_event_time",
        "table: shop.orders_reconciliation\nlane: slow",
        "table: shop.orders_registry_compatibility\nlane: slow",
        "table: shop.b\nupsert: {keys: [id], table: shop.orders_reconciliation}",
    ],
)
def test_names_that_meet_in_no_step_are_left_alone(installation, two):
    installation.platform("lanes: {slow: {}}")
    installation.contract("topic: a\ntable: shop.orders\nvalue: {format: json}", "one.yaml")
    assert len(installation.contract(f"topic: b\n{two}", "two.yaml").load().contracts) == 2
