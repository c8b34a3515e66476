"""Whether a parsed document is valid against its JSON Schema; formats are annotations, as the drafts have them."""

import json
from typing import Any

import jsonschema_rs

from tidemark.engine.decode.shipped.json_values import JsonFault

_DRAFT_7 = "draft-07"
_MAX_REASON = 300


class Validity:
    """A schema's validator, made where it is first used: it travels as text.

    Called with a document it raises JsonFault, with the place of the first fault.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._validator: Any = None

    def __reduce__(self) -> tuple[type["Validity"], tuple[str]]:
        return Validity, (self.schema,)

    def __call__(self, document: Any) -> None:
        """Raise JsonFault for a document that is not valid."""
        if self.validator.is_valid(document):
            return
        error = next(iter(self.validator.iter_errors(document)))
        fault = JsonFault("invalid_against_schema", str(error.message)[:_MAX_REASON])
        for token in reversed(error.instance_path):
            fault = fault.under(str(token))
        raise fault

    @property
    def validator(self) -> Any:
        """The validator; nothing is fetched for it. Raises ValueError for what is no schema."""
        if self._validator is None:
            schema = json.loads(self.schema)
            draft = schema.get("$schema", _DRAFT_7) if isinstance(schema, dict) else _DRAFT_7
            kind = jsonschema_rs.Draft7Validator if _DRAFT_7 in draft else jsonschema_rs.Draft202012Validator
            try:
                self._validator = kind(schema, validate_formats=False, offline=True)
            except jsonschema_rs.ValidationError as error:
                place = ".".join(map(str, error.instance_path))
                raise ValueError(f"{place}: {error.message}" if place else str(error.message)) from None
        return self._validator
