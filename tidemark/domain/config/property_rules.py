"""Which values the `table_properties` of a contract may have, where Iceberg has few or Tidemark says them itself.

Iceberg reads a property when it writes: a wrong one would fail every batch. Keys that are not named here are free.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic_core import PydanticCustomError

from tidemark.domain.config.contract import ContractKeys
from tidemark.domain.config.layering import Finding
from tidemark.domain.config.units import parse_size
from tidemark.domain.suggest import nearest

_CODEC, _LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
_FORMATS = ("parquet", "avro", "orc")
_CHANGES = ("copy-on-write", "merge-on-read")
_ISOLATION = ("serializable", "snapshot")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "write.format.default": _FORMATS,
    "write.delete.format.default": _FORMATS,
    _CODEC: ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "uncompressed"),
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.distribution-mode": ("none", "hash"),
    **{f"write.{change}.mode": _CHANGES for change in ("delete", "update", "merge")},
    **{f"write.{change}.isolation-level": _ISOLATION for change in ("delete", "update", "merge")},
}
_ICEBERGS = r"(write|read|commit|history)\."
_BOOLEAN = re.compile(_ICEBERGS + r".*[.-]enabled")
_BYTES = re.compile(_ICEBERGS + r".*-bytes")
_WHOLE = re.compile(_ICEBERGS + r".*-(level|limit|ms|max|retries|to-keep|to-merge|lookback|defaults)")
_METRICS = re.compile(r"write\.metadata\.metrics\.(default|column\..*)")
_METRICS_MODE = re.compile(r"none|counts|full|truncate\([1-9]\d*\)", re.IGNORECASE)


def property_findings(said: ContractKeys) -> Iterator[Finding]:
    """Keys that are not for a contract to set, and values that no table can be written with."""
    for key, value in said.table_properties.items():
        path = ("table_properties", key)
        if key.startswith("tidemark."):
            yield Finding(path, "is set by Tidemark itself")
        elif key == "format-version":
            yield Finding(path, "has a key of its own in the contract", "format_version")
        elif key == "write.distribution-mode" and value == "range":
            yield Finding(path, "range would read Kafka twice for each batch", "hash")
        elif fault := _fault(key, value):
            yield Finding(path, *fault)
    if _LEVEL in said.table_properties and said.table_properties.get(_CODEC, "").lower() == "gzip":
        yield Finding(("table_properties", _LEVEL), "gzip has no level in numbers: leave it out")


def _fault(key: str, value: str) -> tuple[str, str | None] | None:
    """What is wrong with a value, and what was probably meant."""
    known = _WORDS.get(key)
    if known and value.lower() not in known:
        return f"{value} is none of {', '.join(known)}", nearest(value, known)
    name = key.partition(".column.")[0]
    if _BOOLEAN.fullmatch(name) and value.lower() not in {"true", "false"}:
        return f"{value} is neither true nor false", None
    if _BYTES.fullmatch(name) and not re.fullmatch(r"0*[1-9]\d*", value, re.ASCII):
        return f"{value} is no number of bytes", _bytes(value)
    if _METRICS.fullmatch(key) and not _METRICS_MODE.fullmatch(value):
        return f"{value} is none of none, counts, truncate(16), full", None
    if _WHOLE.fullmatch(name) and not re.fullmatch(r"-?\d+", value, re.ASCII):
        return f"{value} is no whole number", None
    return None


def _bytes(value: str) -> str | None:
    try:
        return str(parse_size(value))
    except PydanticCustomError:
        return None
