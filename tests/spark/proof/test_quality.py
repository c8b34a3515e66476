"""Rules of the contract on real batches: quarantined, counted or blocking; exact at NULL, NaN, decimals and nested."""

import math
from collections import Counter
from decimal import Decimal

from tidemark.engine.operate.accept import accept
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.table.operations import Signature

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


def test_a_rule_that_only_warns_lets_its_rows_land_and_counts_them(lakehouse):
    topic = lakehouse.cluster.topic("warned", 2, schema=PAYMENT)
    topic.send_raw((None, topic.encode(payment(n, quantity=n)), n % 2) for n in range(40))
    topic.send_raw([(b"gone", None, 0)])
    rules = [
        {"column": "quantity", "check": "in_range", "min": 30, "on_failure": "warn"},
        {"sql": "QUANTITY % 2 = 0", "name": "even", "on_failure": "warn"},
        {"check": "min_rows", "min": 100, "on_failure": "warn"},
    ]
    table = lakehouse.table(topic, quality=rules)
    outcome = table.run()
    assert (outcome.rows.written, outcome.rows.tombstones) == (40, 1)
    assert {name: each.failed for name, each in outcome.quality.items()} == {
        "in_range_quantity": 30,
        "even": 20,
        "min_rows": 60,
    }
    first, last = outcome.quality["in_range_quantity"].samples
    assert (first.as_json(), last.as_json()) == (
        {"partition": 0, "offset": 0, "values": {"quantity": "0"}},
        {"partition": 1, "offset": 14, "values": {"quantity": "29"}},
    )
    assert table.holds_everything().quarantined == 0


def test_a_blocking_rule_publishes_nothing_until_its_batch_is_accepted_or_the_rule_is_changed(lakehouse):
    """Given a batch with rows that break blocking rules, when run, then main and branches are as before and the state says which rows; accepting lets this batch through, changing the rule the next."""
    topic = lakehouse.cluster.topic("blocked", schema=PAYMENT)
    rules = [
        {"column": "status", "check": "in_set", "values": ["NEW", "PAID"], "on_failure": "block"},
        {"sql": "amount / quantity > 0", "name": "priced", "on_failure": "block"},
        {"column": "id", "check": "unique"},
        {"column": "amount", "check": "not_null"},
    ]
    table = lakehouse.table(topic, quality=rules)
    topic.send_raw((None, topic.encode(payment(n)), 0) for n in range(20))
    assert table.run().error is None
    head = table.head
    bad = [
        payment(20, status="OLD"),
        payment(21, quantity=0),
        payment(22),
        payment(22),
        payment(23, amount=None),
    ]
    topic.send_raw((None, topic.encode(value), 0) for value in bad)
    outcome = table.run()
    assert (outcome.state, table.head, table.branches) == ("quality_blocked", head, set())
    found = {
        each["rule"]: (each["failed"], [s["offset"] for s in each["samples"]])
        for each in outcome.error["rules"]
    }
    assert found == {"in_set_status": (1, [20]), "priced": (1, [21]), "unique_id": (2, [22])}
    assert "in_set_status (status is one of NEW, PAID): 1 rows, at 0:20" in outcome.error["message"]
    assert "--quarantine-batch" in outcome.error["next_step"]
    assert table.causes() == {}
    accept(lakehouse.lake, table.contract, "quarantine-batch", Signature("me", "known"))
    outcome = table.run()
    assert (outcome.error, outcome.rows.written, outcome.rows.quarantined) == (None, 2, 3)
    assert outcome.quality["unique_id"].failed == 2
    assert table.causes() == {"quality:in_set": 1, "quality:priced": 1, "quality:not_null": 1}
    topic.send_raw([(None, topic.encode(payment(24, status="OLD")), 0)])
    assert table.run().state == "quality_blocked"
    lakehouse.table(topic, quality=[{**rules[0], "on_failure": "quarantine"}])
    assert table.run().rows.quarantined == 1
    assert table.ids() == [*range(20), 22, 22]
    table.holds_everything()


def test_unique_looks_at_the_batch_or_at_the_whole_table_and_a_null_equals_nothing(lakehouse):
    topic = lakehouse.cluster.topic("unique", schema=PAYMENT)
    key = {"check": "unique", "columns": ["id", "status"], "on_failure": "warn"}
    rules = [{**key, "name": "in_batch"}, {**key, "name": "in_table", "within": "table"}]
    table = lakehouse.table(topic, quality=rules)
    topic.send_raw((None, topic.encode(payment(n, status=None if n == 3 else "NEW")), 0) for n in range(5))
    assert {name: each.failed for name, each in table.run().quality.items()} == {"in_batch": 0, "in_table": 0}
    again = [payment(1, status="NEW"), payment(3, status=None), payment(9), payment(9)]
    topic.send_raw((None, topic.encode(value), 0) for value in again)
    found = table.run().quality
    assert {name: each.failed for name, each in found.items()} == {"in_batch": 2, "in_table": 3}
    assert found["in_table"].samples[0].offset == 5
    assert len(table.ids()) == 9


def test_unique_in_the_table_knows_a_column_that_came_with_the_batch(lakehouse):
    """Given a table, when a batch brings a column that must be unique in the whole table, then older rows are NULL
    there and equal nothing."""
    topic = lakehouse.cluster.topic("unique_new", schema=PAYMENT)
    table = lakehouse.table(topic)
    topic.send_raw((None, topic.encode(payment(n)), 0) for n in range(3))
    assert table.run().error is None
    address = {"type": "record", "name": "Place", "fields": [{"name": "zip", "type": "string"}]}
    topic.use(
        {
            **PAYMENT,
            "fields": [*PAYMENT["fields"], {"name": "place", "type": ["null", address], "default": None}],
        }
    )
    rule = {"check": "unique", "columns": ["place.zip"], "within": "table", "on_failure": "warn"}
    lakehouse.table(topic, quality=[rule])
    topic.send_raw(
        (None, topic.encode(payment(n, place={"zip": text})), 0) for n, text in enumerate("aab", start=3)
    )
    outcome = table.run()
    assert outcome.error is None, outcome.error["message"]
    assert [each.failed for each in outcome.quality.values()] == [2]
    assert len(table.ids()) == 6


UNPLANNABLE = [
    ({"column": "amuont", "check": "not_null"}, "there is no column amuont (did you mean amount?)"),
    ({"sql": "amuont > 1"}, "amuont"),
    ({"sql": "amount >"}, "Syntax error"),
    ({"sql": "amount + 1"}, "BOOLEAN"),
    ({"sql": "sum(amount) > 1"}, "aggregate"),
    ({"sql": "row_number() over (order by id) = 1"}, "indow"),
    ({"sql": "explode(customer.tags) = 'a'"}, "enerator"),
    ({"column": "status", "check": "matches", "pattern": "(?P<a>b)"}, "is not a regular expression of Java"),
]


def test_rules_that_cannot_be_executed_are_refused_before_there_is_a_table(lakehouse):
    """Given rules that only the columns or Spark can refuse, when planned or run, then each is named with its fault, and nothing is made."""
    topic = lakehouse.cluster.topic("unplannable", schema=PAYMENT)
    topic.send_raw([(None, topic.encode(payment(1)), 0)])
    table = lakehouse.table(topic, quality=[rule for rule, _ in UNPLANNABLE])
    foreseen = foresee(lakehouse.lake, table.contract)
    assert foreseen.verdict == "impossible"
    assert foresee(lakehouse.lake, table.contract, sample=10) == foreseen
    reasons = {change["reason"] for change in foreseen.changes if change["kind"] == "quality"}
    outcome = table.run()
    assert outcome.state == "misconfigured"
    assert set(outcome.error["faults"]) == reasons
    for rule, (_, words) in zip(table.contract.quality, UNPLANNABLE, strict=True):
        assert any(each.startswith(f"quality: {rule.title}: ") and words in each for each in reasons), (
            rule.title
        )
    assert not lakehouse.catalog.table_exists(table.name)


def test_a_pattern_in_sql_that_is_none_stops_the_table_and_is_no_fault_of_its_records(lakehouse):
    """Given a condition whose regular expression Java cannot read, which no analyser notices, when records come, then the table stops in its words, and none of them is in the quarantine."""
    topic = lakehouse.cluster.topic("unclosed", schema=PAYMENT)
    topic.send_raw([(None, topic.encode(payment(1)), 0)])
    table = lakehouse.table(topic, quality=[{"sql": "status rlike '(a'", "on_failure": "quarantine"}])
    outcome = table.run()
    assert outcome.state == "failed"
    assert "Unclosed group" in outcome.error["message"], outcome.error
    assert outcome.commits == 0
