"""Rules against the columns of a table: what cannot be executed is said when a batch is planned, exactly."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    Field,
    ListType,
    Struct,
    decimal,
)
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.config.quality_fit import bound, fit_faults, literal
from tidemark.domain.config.quality_sql import mentioned
from tidemark.domain.formats.explanation import Explanation
from tidemark.domain.ledger.quality_results import (
    SAMPLES,
    RuleResult,
    Sample,
    add_results,
    hidden_columns,
    may_show,
    redacted,
    row_rules,
    staged_rules,
)
from tidemark.engine.decode.shipped.json_values import JsonFault, parse

COLUMNS = Struct(
    (
        Field("id", LONG),
        Field("small", INT),
        Field("amount", decimal(10, 2)),
        Field("ratio", FLOAT),
        Field("status", STRING),
        Field("payload", BINARY),
        Field("paid", BOOLEAN),
        Field("day", DATE),
        Field("at", TIMESTAMPTZ),
        Field("local", TIMESTAMP),
        Field("tags", ListType(STRING)),
        Field("customer", Struct((Field("email", STRING), Field("e.mail", STRING)))),
    )
)


def rule(**said):
    return QualityRule.model_validate(said)


MISFITS = [
    ({"check": "not_null", "column": "amont"}, "there is no column amont (did you mean amount?)"),
    (
        {"check": "not_null", "column": "customer.emial"},
        "no column customer.emial (did you mean customer.email?)",
    ),
    ({"check": "unique", "columns": ["id", "idd"]}, "there is no column idd"),
    ({"check": "matches", "column": "id", "pattern": "a"}, "matches does not apply to id, which is long"),
    ({"check": "length", "column": "id", "max": 3}, "length does not apply to id"),
    ({"check": "in_range", "column": "paid", "min": 0}, "in_range does not apply to paid"),
    ({"check": "in_range", "column": "customer", "min": 0}, "in_range does not apply to customer"),
    ({"check": "in_range", "column": "id", "min": "a lot"}, "'a lot' is no number"),
    ({"check": "in_range", "column": "id", "max": float("inf")}, "inf is no value of long"),
    ({"check": "in_range", "column": "amount", "max": "1e2000"}, "'1e2000' is no value of decimal(10,2)"),
    ({"check": "in_set", "column": "ratio", "values": ["half"]}, "'half' is no float"),
    ({"check": "in_range", "column": "small", "min": 2**31}, "2147483648 lies outside of what int holds"),
    ({"check": "in_range", "column": "amount", "max": 10**9}, "lies outside of what decimal(10,2) holds"),
    ({"check": "in_range", "column": "at", "min": "2026-01-01T00:00:00"}, "needs a time zone"),
    ({"check": "in_range", "column": "local", "min": "2026-01-01T00:00:00Z"}, "must not have a time zone"),
    ({"check": "in_range", "column": "day", "min": "yesterday"}, "'yesterday' is no date"),
    ({"check": "in_range", "column": "ratio", "min": ".nan"}, "NaN is no bound"),
    ({"check": "in_set", "column": "status", "values": [1]}, "1 is no text: put it in quotes"),
    ({"check": "in_set", "column": "id", "values": [1.5]}, "1.5 has more digits after the point than long"),
    ({"check": "in_set", "column": "id", "values": [True]}, "True is no long"),
    ({"check": "in_set", "column": "paid", "values": ["yes"]}, "'yes' is not true or false"),
]


@pytest.mark.parametrize(("said", "fault"), MISFITS)
def test_a_rule_that_does_not_fit_the_columns_is_refused_in_words(said, fault):
    [found] = fit_faults([rule(**said)], COLUMNS)
    assert found.startswith(f"quality: {rule(**said).title}: ")
    assert fault in found


def test_a_name_with_a_dot_is_suggested_as_it_must_be_written():
    [found] = fit_faults([rule(check="not_null", column="weird.name")], Struct((Field("weird.name", LONG),)))
    assert found.endswith("there is no column weird.name (did you mean `weird.name`?)")


FITTING = [
    {"check": "not_null", "column": "tags"},
    {"check": "not_null", "column": "customer.`e.mail`"},
    {"check": "length", "column": "tags", "min": 1},
    {"check": "length", "column": "payload", "max": 10},
    {"check": "in_range", "column": "at", "min": "2026-01-01T00:00:00Z"},
    {"check": "in_range", "column": "day", "max": "2026-12-31"},
    {"check": "in_range", "column": "amount", "min": 0.005, "max": "99999999.999"},
    {"check": "in_set", "column": "amount", "values": [1, 2.5, "3.25"]},
    {"check": "in_set", "column": "paid", "values": [True]},
    {"check": "in_range", "column": "ratio", "min": "-.inf", "max": 1},
    {"sql": "no_such_column > 1"},
]


@pytest.mark.parametrize("said", FITTING)
def test_a_rule_that_fits_has_no_faults(said):
    assert fit_faults([rule(**said)], COLUMNS) == []


@given(
    st.decimals(min_value=-(10**7), max_value=10**7, places=4),
    st.decimals(min_value=-(10**7), max_value=10**7, places=2),
)
def test_a_bound_moved_to_the_column_judges_every_value_as_the_bound_itself(limit, value):
    kind = decimal(10, 2)
    for text in (str(limit), float(limit)):
        said = Fraction(text) if isinstance(text, str) else Fraction(Decimal(repr(text)))
        assert (value >= Decimal(bound(kind, text, "min"))) == (Fraction(value) >= said)
        assert (value <= Decimal(bound(kind, text, "max"))) == (Fraction(value) <= said)


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_literals_to_the_last_digit(number):
    assert (
        literal(LONG, number) == bound(LONG, number, "min") == bound(LONG, str(number), "max") == str(number)
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1, "1"),
        (".inf", "Infinity"),
        ("-inf", "-Infinity"),
        ("-nan", "NaN"),
        (" +1_000.5", "1000.5"),
        ("\u0663", "3"),
    ],
)
def test_floats_are_spelled_as_spark_reads_them(value, text):
    assert literal(DOUBLE, value) == text


def test_columns_that_stand_in_a_condition_are_found_as_spark_finds_them():
    names = ["amount", "status", "at", "order", "a b"]
    assert mentioned("AMOUNT > 0 or `a b` = 'status'", names) == ("amount", "a b")


@pytest.mark.parametrize(
    ("path", "hidden", "shown"),
    [
        ("customer.email", {"customer"}, False),
        ("customer", {"customer.email"}, False),
        ("Customer.Email", {"customer.email"}, False),
        ("customer.name", {"customer.email"}, True),
        ("customers", {"customer"}, True),
    ],
)
def test_values_near_personal_data_are_not_shown(path, hidden, shown):
    assert may_show(path, hidden) is shown


@pytest.mark.parametrize(
    ("cause", "detail", "shown"),
    [
        ("type_mismatch", "/ssn: '078-05-1120' is no whole number", False),
        ("value_out_of_range", "/cust/email/0: 'a: b'", False),
        ("value_out_of_range", "cust: 12 is no struct", False),
        ("value_out_of_range", "after.ssn: 3000000000 is no int (byte 9)", False),
        ("invalid_against_schema", 'the document: {"ssn": 1} fits none of them', False),
        ("undecodable", "the document: expected `,` at line 1 column 5", True),
        ("value_out_of_range", "/cust/name: 'x'", True),
        ("value_out_of_range", "/items/0/card: 4111", False),
        ("value_out_of_range", "items.element.card: 4111", False),
        ("value_out_of_range", "/items/0/sku: 4111", True),
        ("type_mismatch", "/attrs/alice@example.org: 1 is no text", False),
        ("type_mismatch", "/a~1b: 1 is no text", False),
        ("type_mismatch", "/x y: 1 is no text", False),
        ("type_mismatch", "/user.email: 'a' is no whole number", False),
        ("value_out_of_range", "after.user.email: 'a' is no int", False),
        ("value_out_of_range", "user.phone.home: 4111", False),
        ("type_mismatch", "/user.name: 'a' is no whole number", True),
        ("undecodable", "3 bytes follow the value", True),
    ],
)
def test_no_detail_quotes_a_hidden_value(cause, detail, shown):
    paths = (
        "x y",
        "SSN",
        "cust.email",
        "items.element.card",
        "attrs.value",
        "`a/b`",
        "user.email",
        "`user.phone`",
    )
    hidden = hidden_columns(
        Contract(topic="t", table="s.t", columns={path: {"tags": ["PII"]} for path in paths})
    )
    found = redacted(Explanation(cause, detail), hidden)
    assert (found.detail == detail, found.cause) == (shown, cause)
    assert "alice" not in found.detail
    assert redacted(Explanation(cause, detail), frozenset()).detail == detail
    assert not may_show("_kafka.key", hidden), "it may be the same value"


@pytest.mark.parametrize(
    ("cause", "place", "shown"),
    [
        ("type_mismatch", "/attrs/alice@example.org", "/attrs"),
        ("value_out_of_range", "after.attrs.alice@example.org.x", "after.attrs"),
        ("invalid_against_schema", "the document", "the document"),
    ],
)
def test_a_detail_that_is_not_told_names_the_column_and_no_key_of_its_map(cause, place, shown):
    """Given a map whose values are tagged, when one of them does not fit, then its column is named, and a key
    may be a value itself."""
    hidden = hidden_columns(Contract(topic="t", table="s.t", columns={"attrs.value": {"tags": ["PII"]}}))
    told = redacted(Explanation(cause, f"{place}: 4711 is no text"), hidden).detail
    assert told == f"{shown}: not told here, for it may quote a value that is tagged pii"


@pytest.mark.parametrize("column", ["value", "key", "element"])
@pytest.mark.parametrize("place", ["{0}.ssn", "after.{0}.ssn", "/{0}/ssn", "{0}.element.ssn"])
def test_a_column_may_be_called_as_the_part_of_a_map_is(column, place):
    """Given a struct column of such a name that is tagged, then a detail about a field of it quotes nothing."""
    hidden = hidden_columns(Contract(topic="t", table="s.t", columns={column: {"tags": ["PII"]}}))
    told = redacted(Explanation("value_out_of_range", f"{place.format(column)}: 4711 is no int"), hidden)
    assert "4711" not in told.detail


def test_a_document_that_is_one_hidden_column_quotes_nothing_of_any_place():
    """Given a JSON document without fields as column `value`, tagged, then a pointer into it and its keys are not told."""
    said = {"topic": "t", "table": "s.t", "columns": {"value": {"tags": ["PII"]}}}
    hidden = hidden_columns(Contract(**said, value={"format": "json"}))
    found = Explanation("value_out_of_range", "/alice@example.org/n: 4711 has more digits")
    told = redacted(found, hidden)
    assert told.detail == "the document: not told here, for it may quote a value that is tagged pii"
    assert redacted(found, hidden_columns(Contract(**said))) == found, "a column of that name beside others"


def test_a_parser_that_quotes_a_key_is_not_told():
    """Given a map whose values are tagged, when a document names a key twice, then no word of the parser is told."""
    hidden = hidden_columns(Contract(topic="t", table="s.t", columns={"attrs.value": {"tags": ["PII"]}}))
    with pytest.raises(JsonFault) as found:
        parse(b'{"attrs": {"alice@example.org": 1, "alice@example.org": 2}}')
    assert "alice" in found.value.detail
    told = redacted(Explanation(found.value.cause, found.value.detail), hidden).detail
    assert told == "the document: not told here, for it may quote a value that is tagged pii"


CONTRACT = Contract(
    topic="orders",
    table="shop.orders",
    quality=(
        rule(check="not_null", column="id"),
        rule(check="in_range", column="amount", min=0, on_failure="warn"),
        rule(check="in_set", column="status", values=["NEW"], on_failure="block"),
        rule(check="unique", column="id"),
    ),
)


def test_row_rules_are_judged_while_decoding_unless_they_block():
    assert [each.title for each in row_rules(CONTRACT, COLUMNS).rules] == ["not_null_id", "in_range_amount"]
    assert [each.title for each in staged_rules(CONTRACT, COLUMNS).rules] == ["in_set_status", "unique_id"]


def test_in_an_accepted_batch_rows_that_block_go_to_quarantine_and_nothing_blocks():
    rows = {each.title: each.on_failure for each in row_rules(CONTRACT, COLUMNS, accepted=True).rules}
    assert rows == {"not_null_id": "quarantine", "in_range_amount": "warn", "in_set_status": "quarantine"}
    assert [each.on_failure for each in staged_rules(CONTRACT, COLUMNS, accepted=True).rules] == ["warn"]


def test_a_table_without_rules_has_nothing_to_judge():
    bare = CONTRACT.model_copy(update={"quality": ()})
    assert row_rules(bare, COLUMNS) is staged_rules(bare, COLUMNS) is None


def test_results_add_up_and_keep_the_first_samples():
    def result(failed, *offsets):
        return RuleResult.of(CONTRACT.quality[0], failed, [Sample(0, each) for each in offsets])

    first, second = result(2, 5, 3), result(9, *range(10, 20))
    whole = add_results({"not_null_id": first}, {"not_null_id": second, "other": result(0)})
    assert whole["not_null_id"].failed == 11
    assert [each.offset for each in whole["not_null_id"].samples] == [3, 5, 10, 11, 12]
    assert len(whole["not_null_id"].samples) == SAMPLES
    assert str(result(1, 7)) == "not_null_id (id is not NULL): 1 rows, at 0:7"
    again = add_results({"not_null_id": first}, {"not_null_id": result(2, 5, 6)})["not_null_id"]
    assert [each.offset for each in again.samples] == [3, 5, 6], "a row is shown once"


def test_a_batch_that_is_too_small_is_told_by_the_rows_that_it_lacks() -> None:
    rule = QualityRule.model_validate({"check": "min_rows", "min": 11})
    assert str(RuleResult.of(rule, 1)) == "min_rows (the batch has at least 11 rows): 1 rows too few"
