"""`tidemark replay`, `rollback` and `backfill`: their options as the config of the jobs of the same names."""

from collections.abc import Mapping
from typing import Any

import typer

from tidemark.cli.change import change
from tidemark.cli.options import asked_time
from tidemark.domain.config.units import parse_duration

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
    if quarantine and partition is None and (first is not None or upto is not None):
        raise typer.BadParameter("--from and --to are offsets of a partition: say --partition too")
    if first is not None and upto is not None and first >= upto:
        raise typer.BadParameter(
            f"--to is the offset after the last one: --from {first} --to {upto} is nothing"
        )
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
    asked_time(before)
    target = {"before": before} if snapshot is None else {"snapshot": snapshot}
    change("rollback", {"table": table, **signed, **target}, as_json=as_json)


def _window(text: str) -> int:
    try:
        return max(1, int(parse_duration(text).total_seconds()))
    except ValueError as error:
        raise typer.BadParameter(f"--window: {error}") from None


def backfill(
    table: str, asked: tuple[str, str, str, int | None], options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Load, publish or drop a backfill."""
    since, until, window, max_records = asked
    if options["cutover"] and options["abort"]:
        raise typer.BadParameter("say --cutover or --abort")
    for text in (since, until):
        asked_time(text)
    given = {
        "from_time": since,
        "to_time": until,
        "window_seconds": _window(window) if window else None,
        "max_records": max_records,
    }
    arguments = {"table": table, **options, **{k: v for k, v in given.items() if v not in (None, "")}}
    change("backfill", arguments, as_json=as_json)
