"""Protobuf's Struct, Value, ListValue and Any as canonical JSON.

Belongs here: what protobuf's own JSON leaves out in silence. Each message is read twice, as its bytes are and as the
schema says, that in an Any too, and both must hold the same.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tidemark.engine.decode.shipped.protobuf_faults import ProtobufFault, nothing_unknown

_ANY = "google.protobuf.Any"
_NEGATIVE_ZERO = re.compile(r'("(?:[^"\\]|\\.)*")|-0\.0(?![0-9e])')
"""Outside of texts; without an exponent it becomes a decimal in a VARIANT, which has no such zero."""
_WHOLE = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


def variant_text(written: Any, pool: DescriptorPool) -> str:
    """The JSON from which a VARIANT is made. Raises ProtobufFault."""
    return _NEGATIVE_ZERO.sub(lambda found: found[1] or "-0e0", text(written, pool))


def text(written: Any, pool: DescriptorPool) -> str:
    """Canonical JSON, keys sorted; an Any of a type that the schema does not have keeps its bytes in base64.

    `written` is the message as its bytes say, with wide numbers; `pool` has the schema as it is. Raises ProtobufFault.
    """
    name = type(written).DESCRIPTOR.full_name
    octets = written.SerializeToString(deterministic=True)
    parse = GetMessageClass(pool.FindMessageTypeByName(name)).FromString
    known = parse(octets)
    known.DiscardUnknownFields()
    is_alike = name != _ANY and known.SerializeToString(deterministic=True) == octets
    try:
        if not is_alike:  # a walk costs as much as the JSON
            _nothing_lost(written, parse(octets))
        found = json_format.MessageToDict(known, descriptor_pool=pool)
    except RecursionError:
        raise ProtobufFault("undecodable", "holds Any in Any beyond all depth") from None
    except (json_format.SerializeToJsonError, ValueError) as error:
        raise ProtobufFault("value_out_of_range", f"no JSON: {error}") from None
    except TypeError:
        if name != _ANY:
            raise ProtobufFault(
                "value_out_of_range", "holds an Any of a type that is not in the schema"
            ) from None
        found = {"@type": known.type_url, "value": base64.b64encode(known.value).decode()}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _nothing_lost(written: Any, read: Any) -> None:
    """Raises ProtobufFault where `read` lacks something of `written`, on any level."""
    nothing_unknown((written, read))
    for each, value in type(written).ListFields(written):
        field, pairs = _pairs(each, value, getattr(read, each.name))
        for wide, kept in pairs:
            if field.message_type is not None:
                _nothing_lost(wide, kept)
            elif field.cpp_type in _WHOLE and wide != kept:
                raise ProtobufFault("value_out_of_range", f"{wide} in a number of 32 bits: {field.full_name}")
    if type(written).DESCRIPTOR.full_name == _ANY and (inside := _unpacked(written)) is not None:
        _nothing_lost(inside, _unpacked(read))


def _pairs(field: FieldDescriptor, wide: Any, kept: Any) -> tuple[FieldDescriptor, Iterator[tuple[Any, Any]]]:
    """The field, of a map that of its values, and its values in both messages side by side."""
    if not field.is_repeated:
        return field, iter([(wide, kept)])
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return field, zip(wide, kept, strict=True)
    if set(wide) != set(kept):
        raise ProtobufFault("value_out_of_range", f"a key beyond 32 bits: {field.full_name}")
    return field.message_type.fields_by_name["value"], ((wide[key], kept[key]) for key in wide)


def _unpacked(anything: Any) -> Any:
    """The message that an Any holds, in the pool of the Any; None where that does not know its type."""
    pool = type(anything).DESCRIPTOR.file.pool
    try:
        kind = pool.FindMessageTypeByName(anything.type_url.split("/")[-1])
        return GetMessageClass(kind).FromString(anything.value)
    except KeyError:
        return None
    except DecodeError:
        raise ProtobufFault("undecodable", f"the bytes in an Any are no {kind.full_name}") from None
