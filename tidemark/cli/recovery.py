"""`tidemark replay` and `tidemark rollback`: their options as the config of the jobs of the same names."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer

from tidemark.cli.change import change

Range = tuple[int | None, int | None, int | None]


def replay(
    table: str, wanted: Range, signed: Mapping[str, Any], *, quarantine: bool, cause: str, as_json: bool
) -> None:
    """Replay the quarantine or a range of offsets."""
    partition, first, upto = wanted
    if not quarantine and None in wanted:
        raise typer.BadParameter("say --quarantine, or --partition, --from and --to")
    if cause and not quarantine:
        raise typer.BadParameter("--cause selects quarantined records: say --quarantine too")
    asked = {"partition": partition, "from_offset": first, "to_offset": upto}
    given = {key: value for key, value in asked.items() if value is not None}
    arguments = {"table": table, **signed, "quarantine": quarantine, "cause": cause, **given}
    change("replay", arguments, as_json=as_json)


def rollback(
    table: str, snapshot: int | None, before: str, signed: Mapping[str, Any], *, as_json: bool
) -> None:
    """Roll a table back."""
    if (snapshot is None) == (not before):
        raise typer.BadParameter("say either --snapshot or --before")
    if before:
        try:
            datetime.fromisoformat(before)
        except ValueError:
            raise typer.BadParameter(f"{before} is no time in ISO 8601") from None
    target = {"before": before} if snapshot is None else {"snapshot": snapshot}
    change("rollback", {"table": table, **signed, **target}, as_json=as_json)
