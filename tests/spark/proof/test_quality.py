"""Rules of the contract on real batches: quarantined, counted or blocking; exact at NULL, NaN, decimals and nested."""

import math
from collections import Counter
from decimal import Decimal

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "amount",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
        },
        {"name": "ratio", "type": ["null", "double"]},
        {"name": "status", "type": ["null", "string"]},
        {"name": "quantity", "type": ["null", "int"]},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [{"name": "email", "type": ["null", "string"]}, {"name": "tags", "type": {"type": "array", "items": "string"}}],
            },
        },
    ],
}  # fmt: skip


def payment(number, **other):
    good = {
        "id": number,
        "amount": Decimal(number % 1000) / 100 + 1,
        "ratio": 0.5,
        "status": ("NEW", "PAID")[number % 2],
        "quantity": 1 + number % 5,
        "customer": {"email": f"c{number}@example.org", "tags": ["a"]},
    }
    return {**good, **other}


BAD = {
    "not_null_status": [{"status": None}],
    "in_range_amount": [
        {"amount": Decimal("0.00"), "quantity": None},
        {"amount": Decimal("-99999999.99"), "quantity": None},
    ],
    "in_range_ratio": [{"ratio": math.nan}, {"ratio": math.inf}, {"ratio": 1.5}],
    "in_set_status": [{"status": "new"}],
    "matches_customer_email": [{"customer": {"email": "nobody\n", "tags": ["a"]}}],
    "length_customer_tags": [{"customer": {"email": None, "tags": []}}],
    "cheap": [{"quantity": 0}, {"quantity": 100, "amount": Decimal("1.00")}],
}
"""Rule, and values that break it: a division by zero as well as what is false."""
GOOD = [
    {"amount": None, "ratio": None, "quantity": None},
    {"amount": Decimal("0.01"), "quantity": None},
    {"ratio": -0.0},
    {"ratio": 1.0},
    {"customer": {"email": None, "tags": ["a"]}},
]
"""Values at the edge of a rule, on its good side; NULL breaks `not_null` alone."""
RULES = [
    {"column": "status", "check": "not_null"},
    {"column": "amount", "check": "in_range", "min": 0.005},
    {"column": "ratio", "check": "in_range", "min": 0, "max": 1},
    {"column": "status", "check": "in_set", "values": ["NEW", "PAID"]},
    {"column": "customer.email", "check": "matches", "pattern": "[^@]+@[^@]+"},
    {"column": "customer.tags", "check": "length", "min": 1},
    {"name": "cheap", "sql": "amount / quantity >= 0.05"},
]


def fill(topic, count):
    """`count` payments; returns the offsets of those that break each rule. One partition, so offset = place."""
    values = [payment(n) for n in range(count)]
    for place, edge in enumerate(GOOD):
        values[place] = payment(place, **edge)
    broken = {}
    place = len(GOOD)
    for _ in range(20):
        for rule, cases in BAD.items():
            for case in cases:
                values[place] = payment(place, **case)
                broken.setdefault(rule, []).append(place)
                place += 7
    topic.send_raw((b"k%d" % n, topic.encode(value), 0) for n, value in enumerate(values))
    return broken


def quarantine_of(lakehouse, table):
    return lakehouse.catalog.load_table(f"{table.name}_quarantine").scan().to_arrow().to_pylist()


def test_rows_that_break_a_rule_are_in_quarantine_by_rule_and_all_others_in_the_table(lakehouse):
    """Given 10,000 records with some that break each rule, when run, then exactly those are in quarantine, each with its rule, and the cause shows no personal data."""
    topic = lakehouse.cluster.topic("ruled", schema=PAYMENT)
    broken = fill(topic, 10_000)
    table = lakehouse.table(topic, quality=RULES, columns={"customer.email": {"tags": ["pii"]}})
    outcome = table.run()
    assert outcome.error is None
    bad = sorted(offset for offsets in broken.values() for offset in offsets)
    assert (outcome.rows.written, outcome.rows.quarantined) == (10_000 - len(bad), len(bad))
    assert table.ids() == sorted(set(range(10_000)) - set(bad))
    causes = Counter()
    for rule in table.contract.quality:
        causes[f"quality:{rule.name or rule.check}"] += len(broken[rule.title])
    assert table.causes() == causes
    assert {name: each.failed for name, each in outcome.quality.items()} == {
        name: len(offsets) for name, offsets in broken.items()
    }
    for name, each in outcome.quality.items():
        assert {sample.offset for sample in each.samples} == {broken[name][0], broken[name][-1]}
    found = {row["offset"]: row for row in quarantine_of(lakehouse, table)}
    details = {rule: {found[offset]["detail"] for offset in offsets} for rule, offsets in broken.items()}
    assert details["in_range_amount"] == {
        "not so: amount lies in [0.005, ∞); amount is 0.00",
        "not so: amount lies in [0.005, ∞); amount is -99999999.99",
    }
    assert details["matches_customer_email"] == {"not so: customer.email matches [^@]+@[^@]+"}
    assert "not so: amount / quantity >= 0.05; amount is 1.00; quantity is 100" in details["cheap"]
    table.holds_everything()
