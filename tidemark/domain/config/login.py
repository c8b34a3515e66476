"""How PyIceberg logs in to a REST catalog, and whom it trusts: what it would misread or leave unread is a finding."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tidemark.domain.config.section import PropertyValue, Section
from tidemark.domain.config.yaml_numbers import Written
from tidemark.domain.secrets import is_secret

LoginType = Literal["basic", "google", "entra", "custom", "noop"]


def _not_oauth2(value: Any) -> Any:
    """PyIceberg's own asks for the token without a time limit, and without `ssl`."""
    if value in ("oauth2", "legacyoauth2"):
        says = "write `credential` and `oauth2-server-uri` beside `uri` instead of auth: Spark logs in by them, too"
        raise PydanticCustomError("auth", says)
    return value


def _as_written(value: Any, key: str = "") -> Any:
    """A password of digits is text; a number of seconds is none."""
    if isinstance(value, dict):
        return {name: _as_written(each, name) for name, each in value.items()}
    return value.text if isinstance(value, Written) and is_secret(key) else value


class Basic(Section):
    """A user and a password."""

    username: PropertyValue
    password: PropertyValue


class Login(Section):
    """PyIceberg's words: a type, and a section of that name with what it takes."""

    type: Annotated[LoginType, BeforeValidator(_not_oauth2)]
    impl: str | None = Field(None, min_length=1)
    basic: Basic | None = None
    google: dict[str, Any] | None = None
    entra: dict[str, Any] | None = None
    custom: Annotated[dict[str, Any], AfterValidator(_as_written)] | None = None

    @model_validator(mode="after")
    def _of_its_type(self) -> Self:
        for key in ("basic", "google", "entra", "custom"):
            if key != self.type and getattr(self, key) is not None:
                context = {"type": self.type, "key": key}
                raise PydanticCustomError("auth", "{key} has no effect while type is {type}", context)
        if self.type == "basic" and self.basic is None:
            raise PydanticCustomError("auth", "type basic needs basic: {username: …, password: …}")
        if (self.type == "custom") != (self.impl is not None):
            raise PydanticCustomError("auth", "impl, the class that logs in, goes with type custom alone")
        return self


class Certificate(Section):
    """The client's own, as PEM files; a file may hold both."""

    cert: str = Field(min_length=1)
    key: str | None = Field(None, min_length=1)


class Tls(Section):
    """Files by which PyIceberg and a REST catalog know each other."""

    cabundle: str | None = Field(None, min_length=1)
    client: Certificate | None = None
