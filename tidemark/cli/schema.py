"""`tidemark schema`: what a table's columns are, and who let each change of them in."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import loaded
from tidemark.cli.output import console, print_json
from tidemark.engine.access.lake import Lake
from tidemark.engine.preview.schema_report import schema_report


def schema(table: str, *, as_json: bool) -> None:
    """Columns with ids and comments, layout, and the history of changes."""
    configuration = load_contracts()
    lake = Lake(configuration)
    lake.loaded = loaded([table])
    found = schema_report(lake, configuration.contract(table))
    if as_json:
        print_json(found)
        return
    out = console()
    out.print(f"{table}, format {found['format_version']}, schema {found['schema_id']}", style="bold")
    columns = RichTable(box=None, pad_edge=False)
    for name in ("id", "column", "type", "doc"):
        columns.add_column(name, justify="right" if name == "id" else "left")
    for each in found["columns"]:
        kind = f"{each['type']} not null" if each["required"] else each["type"]
        columns.add_row(str(each["id"]), each["path"], kind, each["doc"] or "")
    out.print(columns)
    for key, words in (("partition_by", "partitioned by"), ("sort_by", "sorted by")):
        if found[key]:
            out.print(f"{words} {', '.join(found[key])}")
    for entry in found["history"]:
        _show(out, entry)


def _show(out: Console, entry: Mapping[str, Any]) -> None:
    ids = ", ".join(str(each) for each in entry["schema_ids"])
    heading = f"{entry['at']} plan {entry['plan']} by {entry['by']}, run {entry['run_id']}"
    out.print(f"{heading}{f', schema ids {ids}' if ids else ''}", style="bold")
    if entry["reason"]:
        out.print(f"  {entry['reason']}")
    for change in entry["changes"]:
        told = f"{change['kind']} {change['path']}".rstrip()
        out.print(f"  {told}: {change['from'] or '–'} → {change['to'] or '–'}")
