"""What people write into Dagster's launchpad."""

from typing import Any

import dagster as dg
from pydantic import model_validator


class Launchpad(dg.Config):
    """The config of whatever people launch: a key without a value (`reason:`) means its default.

    Dagster's schema offers null for every key that has a default, whatever its type.
    """

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in given.items() if value is not None}
