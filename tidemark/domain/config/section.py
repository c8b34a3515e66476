"""The base of what configuration files hold: frozen, closed to unknown keys, silent about secrets."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    RootModel,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tidemark.domain.config.yaml_numbers import Written
from tidemark.domain.secrets import redact

REVEAL = {"reveal": True}
"""The context of a dump that keeps secrets: for digests, never for people."""

_FROZEN = ConfigDict(frozen=True, hide_input_in_errors=True, serialize_by_alias=True)


class Section(BaseModel):
    """One mapping of a configuration file."""

    model_config = ConfigDict(**_FROZEN, extra="forbid")

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        return handler(self) if info.context == REVEAL else redact(handler(self))

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, redact(value, name or "")) for name, value in super().__repr_args__()]

    def __str__(self) -> str:
        return repr(self)


def bounds(low: str, high: str) -> Any:
    """Of two keys of a section, the one that nobody has written gives way: a default alone contradicts no one."""

    def give_way(said: Section) -> Section:
        least, most = getattr(said, low), getattr(said, high)
        if least > most and not {low, high} <= said.model_fields_set:
            unsaid, value = (low, most) if low not in said.model_fields_set else (high, least)
            object.__setattr__(said, unsaid, value)
        return said

    return model_validator(mode="after")(give_way)


class FreeSection(RootModel[dict[str, str]]):
    """A mapping with keys of someone else's naming, for example client properties."""

    model_config = _FROZEN

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        return handler(self) if info.context == REVEAL else redact(handler(self))

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(None, redact(self.root))]

    def __str__(self) -> str:
        return repr(self)


def _as_text(value: Any) -> Any:
    if isinstance(value, Written):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise PydanticCustomError("property", "must be text, a number or true/false")
    return value


PropertyValue = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | float | bool)]
"""A property of a client, catalog or table: numbers are what was written, true and false their words."""
