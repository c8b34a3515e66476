"""What can be wrong with a Protobuf message that protobuf itself has read.

Belongs here: the faults that the columns of a message and the JSON text in them have in common.
"""

from collections.abc import Sequence
from typing import Any, Literal

from google.protobuf.unknown_fields import UnknownFieldSet

Cause = Literal["undecodable", "value_out_of_range", "invalid_against_schema", "wrong_message_type"]


class ProtobufFault(Exception):
    """What is wrong with a value, and where."""

    def __init__(self, cause: Cause, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.cause: Cause = cause
        self.detail = f"{path or 'the value'}: {reason}"


def nothing_unknown(values: Sequence[Any], path: str = "") -> None:
    """Raises ProtobufFault for a message with fields that its schema does not know."""
    for value in values:
        if value is not None and len(UnknownFieldSet(value)):
            found = ", ".join(
                f"{each.field_number} (wire type {each.wire_type})" for each in UnknownFieldSet(value)
            )
            name = type(value).DESCRIPTOR.full_name
            reason = f"fields that the schema's {name} does not have: {found}"
            raise ProtobufFault("invalid_against_schema", reason, path)
