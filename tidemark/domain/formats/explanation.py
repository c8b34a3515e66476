"""Why a record could not become a row: the causes (docs/types.md), and what carries one with the words for a person.

The words are where the fault is found: `avro_explain`, `json_values`, `protobuf_faults`, and `quarantine_rows` for what
no look at the value explains.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Cause = Literal[
    "undecodable", "value_out_of_range", "type_mismatch", "invalid_against_schema", "wrong_message_type"
]
"""Causes that a second look at the value can explain."""
CAUSES = frozenset(get_args(Cause)) | {"no_magic_byte", "unknown_schema_id", "null_key", "schema_not_allowed"}
"""Every cause but those of quality rules."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cause and, in words, where in the value and why."""

    cause: Cause
    detail: str
