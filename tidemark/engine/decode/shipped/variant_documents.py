"""Text of JSON documents that stand inside of other formats, as text that a VARIANT keeps every digit of."""

import pyarrow as pa

from tidemark.engine.decode.shipped.batch import ENVIRONMENT
from tidemark.engine.decode.shipped.json_values import JsonFault, parse, text_of, variant_text

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium sends in place of a large value that a change did not touch."""


def kept_texts(texts: pa.Array) -> pa.Array:  # type: ignore[type-arg] # Spark reads the hints
    """Each document as text; NULL for what is none, or is none that a VARIANT keeps. UNAVAILABLE becomes a string."""
    return pa.array([None if text is None else _kept(text) for text in texts.to_pylist()], pa.string())


def document_fault(text: str) -> str | None:
    """Why a VARIANT does not keep a document, with the place in it; None when it does."""
    try:
        _exact(text)
    except JsonFault as fault:
        return fault.detail
    return None


def _kept(text: str) -> str | None:
    try:
        return _exact(text)
    except ENVIRONMENT:
        raise
    except Exception:  # noqa: BLE001 - JsonFault, and whatever else a document does to its reader
        return None


def _exact(text: str) -> str:
    return str(text_of(text)) if text == UNAVAILABLE else variant_text(parse(text.encode()))
