"""docs/matrix.md, printed from the rows that tests run."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from matrix import AVRO, DEBEZIUM, JSON_FIELDS, JSON_SCHEMA, PROTOBUF, WHOLES
from matrix_changes import CHANGES, EDITS, NAMES


def page() -> str:
    """docs/matrix.md."""
    return "\n".join([*_head(), *_types(), *_wholes(), *_changes(), *_edits(), ""])


def _head() -> Iterator[str]:
    yield "# Matrix: every type, every schema change"
    yield ""
    yield "Printed from `tests/support/matrix.py` and `matrix_changes.py`. Every row is a test of its own: `tests/unit/docs/test_matrix.py`, and for the"
    yield "values of Avro `tests/spark/test_matrix.py`. All values go through registry, broker, Spark and Iceberg and are read by"
    yield "PyIceberg and Spark in `tests/spark/proof/test_matrix_topics.py`. Schema changes are carried out on a table with rows"
    yield "in `tests/unit/engine/test_changes.py`."
    yield "The rules in words are in [types.md](types.md) and [guide.md](guide.md)."
    yield ""


def _types() -> Iterator[str]:
    sections = (
        ("Avro", AVRO),
        ("JSON with declared columns", JSON_FIELDS),
        ("JSON Schema", JSON_SCHEMA),
        ("Protobuf", PROTOBUF),
        ("Debezium", DEBEZIUM),
    )
    for title, rows in sections:
        yield f"## {title}"
        yield ""
        yield "| written | column | example | lands as | |"
        yield "|---|---|---|---|---|"
        for row in rows:
            yield f"| {_cell(row.written)} | {_cell(row.column)} | {_code(row.value)} | {_code(row.lands)} | {_cell(row.note)} |"
        yield ""


def _wholes() -> Iterator[str]:
    yield "## Values as a whole"
    yield ""
    yield "| written | column | example | lands as |"
    yield "|---|---|---|---|"
    for row in WHOLES:
        lands = f"refused with the path `{row.refused}`; other topics go on"
        if not row.refused:
            lands = ", ".join(f"`{name}`: {_code(value)}" for name, value in row.lands.items())
        yield f"| {_cell(row.written)} | {_cell(row.columns) or '–'} | {_code(row.sent)} | {_cell(lands)} |"
    yield ""


def _changes() -> Iterator[str]:
    yield "## Schema changes"
    yield ""
    yield "The default verdict, and the key of `schema_changes` that chooses another (`apply`, `review`, `quarantine`; `apply` is not"
    yield "possible for `incompatible`). `review` lets records wait, `quarantine` sends just those aside."
    yield ""
    yield "| change | planned as | at | default | key | what happens |"
    yield "|---|---|---|---|---|---|"
    for row in CHANGES:
        quiet = (row.kind, row.default) == ("remove_column", "apply")
        kind = "– (`remove_column` by another verdict)" if quiet else row.kind or "–"
        cells = (row.change, kind, row.path or "–", row.default or "–", row.key or "–", row.happens)
        yield f"| {' | '.join(_cell(each) for each in cells)} |"
    yield ""


def _edits() -> Iterator[str]:
    yield "## Edits of the contract"
    yield ""
    yield "| edit | planned as | verdict | what happens |"
    yield "|---|---|---|---|"
    rows = [*((r.edit, r.kind, r.verdict, r.happens) for r in EDITS), *NAMES]
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (str, bytes, datetime, date, Decimal)):
        text = value.hex(" ") if isinstance(value, bytes) else str(value)
        return f"`{_cell(text)}`"
    return f"`{_cell(json.dumps(value, ensure_ascii=False, default=lambda found: found.hex(' ')))}`"
