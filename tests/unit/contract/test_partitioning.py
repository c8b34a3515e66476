"""Partition transforms: what is written, what Spark is told, what is refused."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from tidemark.domain.columns.partitioning import (
    TRANSFORMS,
    PartitionField,
    column_parts,
    expected_partitions,
    parse_partition_field,
)


@pytest.mark.parametrize(
    ("written", "field", "sql"),
    [
        ("year(a)", PartitionField("year", "a"), "years(a)"),
        ("month(a)", PartitionField("month", "a"), "months(a)"),
        ("day(ordered_at)", PartitionField("day", "ordered_at"), "days(ordered_at)"),
        ("hour(_kafka.timestamp)", PartitionField("hour", "_kafka.timestamp"), "hours(_kafka.timestamp)"),
        ("bucket(16, customer_id)", PartitionField("bucket", "customer_id", 16), "bucket(16, customer_id)"),
        ("truncate(4,name)", PartitionField("truncate", "name", 4), "truncate(4, name)"),
        ("identity(country)", PartitionField("identity", "country"), "country"),
        ("country", PartitionField("identity", "country"), "country"),
        ("day(`a.b`.c)", PartitionField("day", "`a.b`.c"), "days(`a.b`.c)"),
        ("order-id", PartitionField("identity", "order-id"), "`order-id`"),
    ],
)
def test_transforms_are_read_and_told_to_spark(written: str, field: PartitionField, sql: str) -> None:
    assert parse_partition_field(written) == field
    assert field.spark_sql() == sql
    assert parse_partition_field(str(field)) == field


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("dya(ordered_at)", "day(ordered_at)"),
        ("days(ordered_at)", "day(ordered_at)"),
        ("buckets(16, id)", "bucket(16, id)"),
        ("bucket(id)", "bucket(16, id)"),
        ("bucket(id, 16)", "bucket(16, id)"),
        ("bucket(0, id)", "bucket(16, id)"),
        ("truncate(x, id)", "truncate(16, id)"),
        ("day(16, at)", "day(at)"),
        ("zzz(at)", None),
        ("day(at", None),
        ("day()", None),
        ("a b", None),
        ("a..b", None),
        (7, None),
    ],
)
def test_what_is_no_transform_is_refused_with_what_was_meant(written: object, meant: str | None) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_partition_field(written)
    assert (caught.value.context or {}).get("suggestion") == meant
    assert repr(written) in caught.value.message()


NAMES = st.text(min_size=1, max_size=8).filter(lambda name: "\n" not in name)


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_any_column_name_can_be_written_in_backticks(names: list[str]) -> None:
    path = ".".join(f"`{name.replace('`', '``')}`" for name in names)
    assert column_parts(path) == tuple(names)


@given(
    st.sampled_from(TRANSFORMS),
    st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True),
    st.integers(1, 99),
)
def test_every_field_is_read_back_from_its_text(transform: str, column: str, number: int) -> None:
    parameter = number if transform in {"bucket", "truncate"} else None
    field = PartitionField(transform, column, parameter)
    assert parse_partition_field(str(field)) == field


@pytest.mark.parametrize("key", ["{key}: {says}", "upsert: {{keys: [id], {key}: {says}}}"])
def test_a_comma_within_parentheses_needs_no_quotes(installation, key: str) -> None:
    """Given a list in one line, as every example writes it, then bucket(16, order_id) is one field although YAML splits it."""
    says = "[day(ordered_at), bucket(16, order_id), truncate(4,name), country]"
    contract = installation.contract("topic: orders\n" + key.format(key="partition_by", says=says)).only()
    fields = contract.upsert.partition_by if contract.upsert else contract.partition_by
    assert [str(each) for each in fields] == [
        "day(ordered_at)",
        "bucket(16, order_id)",
        "truncate(4, name)",
        "country",
    ]


@pytest.mark.parametrize("says", ["[day(at, country]", "[bucket(16, 4, id)]", "[bucket(16, {a: id}, b)]"])
def test_parts_that_make_no_field_are_refused(installation, says: str) -> None:
    problems = installation.contract(f"topic: orders\npartition_by: {says}").problems()
    assert problems
    assert all("partition_by" in each.key for each in problems)


def test_the_event_time_partitions_by_day_unless_partitions_are_given_and_none_is_given_too(installation):
    assert [str(each) for each in installation.contract("topic: a\nevent_time: at").only().partitioning] == [
        "day(at)"
    ]
    said = installation.contract("topic: a\nevent_time: at\npartition_by: []").only()
    assert said.partitioning == ()
    unsaid = installation.contract("topic: a\nevent_time: at").only()
    assert said.digest != unsaid.digest


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        ((), 1),
        (("day(at)",), 1),
        (("bucket(16, id)",), 16),
        (("bucket(4, id)", "bucket(3, name)"), 12),
        (("hour(at)",), inf),
        (("country",), inf),
        (("day(at)", "bucket(32, id)"), inf),
    ],
)
def test_a_first_batch_is_of_few_partitions_only_where_no_history_makes_them_many(
    partition_by: tuple[str, ...], expected: float
) -> None:
    """A year of days with 32 buckets is 11,680: a task that kept a file open for each would fill its server's memory."""
    assert expected_partitions(partition_by) == expected
