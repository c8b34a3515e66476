"""JSON documents to Arrow columns, a batch at a time.

Belongs here: taking columns of values apart at the speed of C: the set of Python types in a column says whether
Arrow may convert it as it is. Whatever is not plainly right is converted one by one by `json_values`, and a batch
with a fault in it is looked at document by document.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.domain.formats.avro_columns import WHOLE_VALUE
from tidemark.domain.formats.json_nodes import EXTRA, Items, Leaf, Node, Object
from tidemark.engine.decode.shipped.batch import causes_and_rows
from tidemark.engine.decode.shipped.json_values import JsonFault, check, leaf, parse, text_of, variant_text

_NATIVE: Mapping[str, frozenset[type]] = {
    "boolean": frozenset({bool}),
    "int": frozenset({int}),
    "long": frozenset({int}),
    "decimal": frozenset({int, Decimal}),
    "string": frozenset({str}),
    "binary": frozenset({bytes}),
    "double": frozenset({Decimal}),
    "timestamp": frozenset({str}),
    "timestamptz": frozenset({str}),
}
_OWN = {"int": pa.int32()}
"""Types in which a number that is beyond its own raises, although a wider column would hold it."""
_CLOCK = r"-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_YEAR, _INNER_YEAR = r"(?:[2-9]\d|1[4-9])\d\d", r"(?:[2-8]\d|1[4-9])\d\d"
_PLAIN_TIME = {
    "timestamp": f"^{_YEAR}{_CLOCK}$",
    "timestamptz": rf"^(?:{_YEAR}{_CLOCK}Z|{_INNER_YEAR}{_CLOCK}[+-]\d\d:\d\d)$",
}
"""Years that stay within 9999 whatever the zone; the others are converted one by one."""
_NULL = type(None)

Problem = Callable[[Any], Any] | None
Read = Callable[[bytes], Any]
Documents = Sequence[Any]
Array = Any
Type = Any
"""What pyarrow makes and is given; its stubs ask for more type arguments than are known here."""


def rows(
    values: Sequence[bytes | None],
    root: Node,
    target: Type,
    problem: Problem = None,
    read: Read = parse,
) -> tuple[list[str | None], Array]:
    """Causes (None for a good document) and rows, both as long as `values`; NULL in, NULL out.

    `problem` raises JsonFault for a parsed document that is not valid against its schema; `read` makes the document
    that `root` describes out of a value.
    """

    def cause_of(value: bytes) -> str | None:
        fault = fault_of(value, root, problem, read)
        return fault.cause if fault else None

    return causes_and_rows(values, lambda some: _built(some, root, target, problem, read), cause_of)


def fault_of(value: bytes, root: Node, problem: Problem = None, read: Read = parse) -> JsonFault | None:
    """What is wrong with one document."""
    try:
        document = read(value)
        if problem:
            problem(document)
        if isinstance(root, Object) and document is None:
            return JsonFault("type_mismatch", "null where an object belongs")
        check(root, document)
    except JsonFault as fault:
        if problem and fault.cause == "type_mismatch":  # a format that the schema has as an annotation only
            return JsonFault("invalid_against_schema", fault.reason, fault.pointer)
        return fault
    return None


def _built(values: Sequence[bytes | None], root: Node, target: Type, problem: Problem, read: Read) -> Array:
    documents = [None if value is None else read(value) for value in values]
    missing = [value is None for value in values]
    if problem:
        for document, is_missing in zip(documents, missing, strict=True):
            if not is_missing:
                problem(document)
    if isinstance(root, Object):
        if documents.count(None) != sum(missing):
            raise JsonFault("type_mismatch", "null where an object belongs")
        return _column(root, documents, target)
    if root == Leaf("document"):
        whole = pa.array(values, pa.binary()).cast(pa.string())
    elif root == Leaf("variant"):
        pairs = zip(documents, missing, strict=True)
        whole = pa.array([None if gone else variant_text(found) for found, gone in pairs], pa.string())
    else:
        whole = _column(root, documents, target.field(WHOLE_VALUE).type)
    arrays = [whole if field.name == WHOLE_VALUE else pa.nulls(len(values), field.type) for field in target]
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=pa.array(missing))


def _column(node: Node, values: Documents, target: Type) -> Array:
    """Values of one place in many documents as an array of the type `target`, which covers the node."""
    kinds = set(map(type, values))
    kinds.discard(_NULL)
    match node:
        case Leaf():
            return _leaf(node, values, target, kinds)
        case Object():
            _only(kinds, dict)
            return _struct(node, values, target)
        case Items():
            _only(kinds, list)
            inner = list(chain.from_iterable(filter(None, values)))
            item = _column(node.item, inner, target.value_type)
            return pa.ListArray.from_arrays(_offsets(values), item, type=target, mask=_nulls(values))
    _only(kinds, dict)
    inner = list(filter(None, values))
    keys = pa.array(list(chain.from_iterable(inner)), target.key_type)
    items = [item for value in inner for item in value.values()]
    return pa.MapArray.from_arrays(
        _offsets(values), keys, _column(node.value, items, target.item_type), type=target, mask=_nulls(values)
    )


def _only(kinds: set[type], kind: type) -> None:
    if not kinds <= {kind}:
        raise JsonFault("type_mismatch", f"{kinds} where {kind} belongs")


def _struct(node: Object, values: Documents, target: Type) -> Array:
    parts = {prop.name: prop.node for prop in node.properties}
    arrays = []
    for field in target:
        if field.name in parts:
            name = field.name
            found = [None if value is None else value.get(name) for value in values]
            arrays.append(_column(parts[name], found, field.type))
        elif field.name == EXTRA and node.is_open:
            arrays.append(_extra(values, frozenset(parts)))
        else:
            arrays.append(pa.nulls(len(values), field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=_nulls(values))


def _extra(values: Documents, declared: frozenset[str]) -> Array:
    """JSON text of what is not declared, NULL where that is nothing."""
    if set().union(*filter(None, values)) <= declared:
        return pa.nulls(len(values), pa.string())
    found = [
        {key: item for key, item in value.items() if key not in declared} if value else None
        for value in values
    ]
    return pa.array([text_of(rest) if rest else None for rest in found], pa.string())


def _leaf(node: Leaf, values: Documents, target: Type, kinds: set[type]) -> Array:
    if kinds <= _NATIVE.get(node.kind, frozenset()):
        try:
            match node.kind:
                case "double":
                    return _doubles(values, target)
                case "timestamp" | "timestamptz":
                    return _times(node, values, target)
                case "decimal":
                    return _decimals(node, values).cast(target)
            return pa.array(values, _OWN.get(node.kind, target)).cast(target)
        except (pa.ArrowException, ArithmeticError):
            pass
    convert = leaf(node)
    return pa.array([None if value is None else convert(value) for value in values], target)


def _doubles(values: Documents, target: Type) -> Array:
    """Raises OverflowError when one of them may have become 0 or infinite."""
    found = pa.array([None if value is None else float(value) for value in values], target)
    size = pc.abs(found)
    bounds = pc.min_max(size)
    if bounds["min"].as_py() == 0 or bounds["max"].as_py() == float("inf"):
        raise OverflowError
    return found


def _decimals(node: Leaf, values: Documents) -> Array:
    """Raises ArithmeticError when one of them is not exact: Arrow takes some of 240 fraction digits for 0."""
    unit = Decimal((0, (1,), -node.scale))
    exact = Context(prec=node.precision, traps=[Inexact, InvalidOperation])
    return pa.array(
        [None if value is None else Decimal(value).quantize(unit, context=exact) for value in values],
        pa.decimal128(node.precision, node.scale),
    )


def _times(node: Leaf, values: Documents, target: Type) -> Array:
    """Raises ArrowInvalid when one of them is not written in the plain way."""
    text = pa.array(values, pa.string())
    plain = pc.match_substring_regex(text, _PLAIN_TIME[node.kind])
    if pc.all(plain).as_py() is False:
        raise pa.ArrowInvalid("a time that is not plain")
    return text.cast(target)


def _nulls(values: Documents) -> Array | None:
    return pa.array([value is None for value in values]) if None in values else None


def _offsets(values: Documents) -> Array:
    lengths = (len(value) if value else 0 for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())
