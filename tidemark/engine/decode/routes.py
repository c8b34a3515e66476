"""Records of a topic with several types that are not for this table, as Spark expressions."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.formats.avro_decoder import ID_SIZE
from tidemark.domain.formats.routes import UNROUTED, Route, branch_prefix
from tidemark.engine.decode.debezium import SKIP


class Routed(Protocol):
    """What of a `Decoding` is asked here."""

    @property
    def unrouted(self) -> frozenset[int]:
        """Ids of record types that no table is for."""

    @property
    def indexes(self) -> Mapping[int, Mapping[bytes, Route]]:
        """Message indexes of other record types, by schema id."""


def route_of(decoding: Routed, schema_id: Column) -> Column | None:
    """SKIP or UNROUTED for a record that its message index, or its schema id alone, leaves to others; else NULL.

    None where nothing can be.
    """
    cases: list[tuple[Column, str]] = [
        (F.startswith(F.col("value"), F.lit(b"\0" + i.to_bytes(ID_SIZE, "big") + prefix)), _cause(route))
        for i, prefixes in sorted(decoding.indexes.items())
        for prefix, route in prefixes.items()
    ]
    if decoding.unrouted:
        cases.append((schema_id.isin(*sorted(decoding.unrouted)), UNROUTED))
    return _first(cases) if cases else None


def is_branch(payload: Column, header: int, position: int) -> Column:
    """Whether a value of a top-level union, behind `header` bytes, is of the branch at `position`, null counted."""
    prefix = branch_prefix(position)
    return F.substring(payload, header + 1, len(prefix)) == F.lit(prefix)


def branch_route(payload: Column, header: int, routes: Sequence[str]) -> Column:
    """SKIP or UNROUTED for a value that is another branch of a union, else NULL."""
    others = ((position, route) for position, route in enumerate(routes) if route != "own")
    return _first([(is_branch(payload, header, position), _cause(route)) for position, route in others])


def _cause(route: str) -> str:
    return UNROUTED if route == "unrouted" else SKIP


def _first(cases: Sequence[tuple[Column, str]]) -> Column:
    (condition, route), *rest = cases
    return reduce(lambda chain, case: chain.when(case[0], case[1]), rest, F.when(condition, route))
