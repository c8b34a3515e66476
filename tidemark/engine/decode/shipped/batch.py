"""A batch of Kafka values to causes and rows, whatever the format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Array = Any
"""A pyarrow.Array; its stubs ask for more type arguments than are known here."""
Rows = Callable[[Sequence[bytes | None]], tuple[list[str | None], Array]]
"""Payloads to causes and rows, NULL in, NULL out."""
Built = Callable[[Sequence[bytes | None]], Array]
"""Payloads to rows; raises whatever it likes where one of them is no row."""
ENVIRONMENT = (MemoryError, OSError, ImportError)
"""What ends a batch. Every other error is the fault of the record that it comes from, which is quarantined."""


def causes_and_rows(
    values: Sequence[bytes | None],
    built: Built,
    cause_of: Callable[[bytes], str | None],
) -> tuple[list[str | None], Array]:
    """Causes (None for a good value) and rows, both as long as `values`; NULL in, NULL out.

    All are built at once; where that raises, each is by itself. What cannot be built stays out, whatever else is
    thought of it; what can is a row, whatever came with it.
    """
    causes: list[str | None] = [None] * len(values)
    try:
        return causes, built(values)
    except ENVIRONMENT:
        raise
    except Exception:  # noqa: BLE001 - whatever a decoder raises: one record must never stop a table
        causes = [
            None if value is None or _is_row(value, built) else _cause(value, cause_of) for value in values
        ]
    good = [value if cause is None else None for value, cause in zip(values, causes, strict=True)]
    return causes, built(good)


def _is_row(value: bytes, built: Built) -> bool:
    try:
        built([value])
    except ENVIRONMENT:
        raise
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _cause(value: bytes, cause_of: Callable[[bytes], str | None]) -> str:
    try:
        return cause_of(value) or "undecodable"
    except ENVIRONMENT:
        raise
    except Exception:  # noqa: BLE001 - as above
        return "undecodable"


def decoder(writers: Mapping[int, Rows], header: int) -> Callable[[Array, Array], Array]:
    """A function of values and writer ids that gives struct<cause, row>; `header` bytes of a value are left out."""

    def decode(values: pa.Array, ids: pa.Array) -> pa.Array:  # type: ignore[type-arg] # Spark reads the hints
        payloads = [
            value and value[header:] for value in values.to_pylist()
        ]  # Arrow's binary_slice fails beside NULLs
        present: list[Any] = ids.filter(values.is_valid()).unique().to_pylist()
        if len(present) <= 1:
            causes, rows = writers[present[0] if present else next(iter(writers))](payloads)
        else:
            causes, rows = _mixed(writers, payloads, ids.to_pylist(), present)
        return pa.StructArray.from_arrays([pa.array(causes, pa.string()), rows], ["cause", "row"])

    return decode


def _mixed(
    writers: Mapping[int, Rows], payloads: list[bytes | None], ids: list[int | None], present: list[int]
) -> tuple[list[str | None], Array]:
    """Each writer's share in one go, put back in order; a NULL goes to any writer."""
    shares: dict[int, list[int]] = {each: [] for each in present}
    for place, (payload, each) in enumerate(zip(payloads, ids, strict=True)):
        shares[present[0] if payload is None or each is None else each].append(place)
    causes: list[str | None] = [None] * len(payloads)
    parts, places = [], []
    for each, share in shares.items():
        found, rows = writers[each]([payloads[place] for place in share])
        parts.append(rows)
        places += share
        for place, cause in zip(share, found, strict=True):
            causes[place] = cause
    order = pc.sort_indices(pa.array(places, pa.int64()))
    return causes, pa.concat_arrays(parts).take(order)
