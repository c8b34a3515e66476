"""A column is declared only when it holds every value that was seen; what is left out is said, and lands in `_extra`."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.json_columns import declared
from tidemark.domain.plan.proposal import declared_fields
from tidemark.engine.decode.shipped.json_arrow import fault_of
from tidemark.engine.decode.shipped.json_values import parse, text_of
from tidemark.engine.preview.json_inference import infer


def of(*values: Any) -> str | None:
    columns, _ = infer([{"x": value} for value in values])
    return str(columns.fields[0].type) if columns.fields else None


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False, None], "boolean"),
        ([1, -(2**63), 2**63 - 1], "long"),
        ([2**63], "decimal(38,0)"),
        ([10**38], None),
        ([1, Decimal("1.5")], "double"),
        ([2**53 + 1, Decimal("1.5")], "decimal(38,1)"),
        ([Decimal("0.1"), Decimal("1e300")], "double"),
        ([Decimal("1.234567890123456789")], "decimal(38,18)"),
        ([Decimal("12345678901234567.89"), 1], "decimal(38,2)"),
        ([Decimal("1.234567890123456789"), Decimal("1e300")], None),
        ([Decimal("1e400")], None),
        ([Decimal("1e-400"), 0], None),
        (["2026-01-31", "1960-02-29"], "date"),
        (["2026-02-30"], "string"),
        (["2026-01-31T23:59:59.5+01:00", "2026-01-31T00:00:00Z"], "timestamptz"),
        (["2026-01-31T23:59:59"], "timestamp"),
        (["2026-01-31T23:59:59", "2026-01-31T23:59:59Z"], "string"),
        (["2026-01-31T23:59:59.1234567Z"], "string"),
        (["2026-01-31T23:59:60Z"], "string"),
        (["2026-W01-1"], "string"),
        (["2026-01-31T25:00:00Z"], "string"),
        (["2026-01-31T00:00:00+99:99"], "string"),
        (["0001-01-01T00:00:00+14:00"], "string"),
        (["", "a"], "string"),
        ([[1, None], []], "list<long>"),
        ([[], []], None),
        ([{"a": 1}, {"a": None, "b": "x"}], "struct<a: long, b: string>"),
        ([{f"k{n}": n} for n in range(60)], "map<string, long>"),
        ([None], None),
        ([1, "1"], None),
        ([[1], {"a": 1}], None),
    ],
)
def test_the_narrowest_type_that_holds_all_or_none(values: list[Any], kind: str | None) -> None:
    assert of(*values) == kind


def test_what_is_left_out_is_told_with_its_reason() -> None:
    _, left = infer([{"a": None, "b": 1}, {"a": None, "b": "1"}])
    assert left == {"a": "it was always null", "b": "it was integer and string"}


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(-1e9, 1e9).map(lambda f: Decimal(repr(round(f, 3))))
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.from_regex(
        r"(20[0-9]{2}|000[01]|9999)-(0[0-9]|1[0-3])-[0-3][0-9]"
        r"([T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,7})?(Z|[+-][0-9]{2}:[0-6][0-9])?)?",
        fullmatch=True,
    )
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["f", "g", "h"]), values, max_size=3), min_size=1, max_size=6)
)
def test_every_document_that_was_seen_decodes_by_the_fields_that_were_inferred(documents: list[Any]) -> None:
    texts = [text_of(document) for document in documents]
    columns, _ = infer(parse(text.encode()) for text in texts)
    if not columns.fields:
        return
    try:
        expected = declared(declared_fields(columns))
    except SchemaUnsupported:
        return  # names that cannot live together: the survey leaves them out one by one
    for text in texts:
        assert fault_of(text.encode(), expected.root) is None
