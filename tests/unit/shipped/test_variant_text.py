"""Rule: the text that becomes a VARIANT holds each number so that Spark's parser keeps it, or is refused."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.types import LONG, STRING, VARIANT, ListType, MapType
from tidemark.domain.formats.json_columns import columns, with_variants
from tidemark.domain.formats.json_nodes import Leaf
from tidemark.domain.formats.json_schema import parse as parse_schema
from tidemark.engine.decode.shipped import json_values
from tidemark.engine.decode.shipped.json_arrow import fault_of
from tidemark.engine.decode.shipped.json_values import JsonFault, parse, variant_text
from tidemark.engine.decode.shipped.variant_documents import UNAVAILABLE, document_fault, kept_texts


@given(st.integers(-(10**45), 10**45) | st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value_or_is_refused(number):
    fault = fault_of(str(number).encode(), Leaf("variant"))
    if fault:
        assert fault.cause == "value_out_of_range"
        assert Decimal(repr(float(number))) != Decimal(number)
        return
    text = variant_text(number)
    assert Decimal(text) == Decimal(number)
    if "e" in text:
        assert Decimal(repr(float(text))) == Decimal(number)
    else:
        assert len(text.lstrip("-").lstrip("0").replace(".", "")) <= 38


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_kept(number):
    kept = float(variant_text(Decimal(repr(number))))
    assert (kept, str(kept)[0]) == (number, str(number)[0])


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b'{"a": [1, 2.50, null, "x\\n", true], "b": {}}', '{"a":[1,2.5,null,"x\\n",true],"b":{}}'),
        (b"null", "null"),
        (b"-0.0", "-0e0"),
        (b"1e2", "100"),
        (b"1e300", "1e+300"),
        (b"0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
    ],
)
def test_documents_are_spelled_plainly(document, text):
    assert variant_text(parse(document)) == text


def test_a_refused_number_is_named_by_its_place():
    with pytest.raises(JsonFault) as caught:
        variant_text(parse(b'{"a": [{"b": 123456789012345678901234567890123456789012}]}'))
    assert (caught.value.cause, caught.value.pointer) == ("value_out_of_range", "/a/0/b")


def test_a_document_beyond_the_size_of_a_variant_is_refused(monkeypatch):
    monkeypatch.setattr(json_values, "VARIANT_SIZE", 10)
    assert variant_text("12345678") == '"12345678"'
    with pytest.raises(JsonFault):
        variant_text("123456789")


def test_untyped_parts_become_variants_and_the_rest_stays():
    schema = """{"type": "object", "properties": {"id": {"type": "integer"}, "any": {},
      "list": {"type": "array", "items": {"type": ["string", "integer"]}},
      "map": {"type": "object", "additionalProperties": {"type": ["object", "array"]}}}}"""
    found = {f.name: f.type for f in columns(with_variants(parse_schema(schema))).fields}
    assert found == {
        "id": LONG,
        "any": VARIANT,
        "list": ListType(VARIANT),
        "map": MapType(STRING, VARIANT),
        "_extra": STRING,
    }


def test_documents_inside_of_other_formats_are_kept_or_none():
    given = [None, '{"a": 1.50}', "7", '{"a":1} x', '{"a":1,"a":2}', "9" * 42, "", UNAVAILABLE, '"x"']
    kept = [None, '{"a":1.5}', "7", None, None, None, None, f'"{UNAVAILABLE}"', '"x"']
    assert kept_texts(pa.array(given)).to_pylist() == kept
    assert document_fault('{"a": [1, 1e400]}') == "/a/1: 1E+400 has more digits than a VARIANT keeps"
    assert document_fault(UNAVAILABLE) is None
