"""Arguments and options that several commands share."""

import json
from datetime import datetime
from typing import Annotated

import typer

from tidemark import __version__
from tidemark.domain.times import time_of


def _tell_version(context: typer.Context, asked: bool) -> None:  # noqa: FBT001 - the signature is typer's
    if asked:
        said = {"version": __version__}
        typer.echo(json.dumps(said) if context.params["as_json"] else f"tidemark {__version__}")
        raise typer.Exit


AnyJson = Annotated[
    bool,
    typer.Option("--json", is_eager=True, help="Of all but demo, dev and metrics: print one JSON document."),
]
Version = Annotated[bool, typer.Option("--version", callback=_tell_version, help="Show the version and end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Tables = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]…", help="namespace.name; all contracts when left out.")
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.name")]
By = Annotated[str, typer.Option("--by", envvar="TIDEMARK_USER", help="Who changes it (= the login name).")]
Reason = Annotated[str, typer.Option("--reason", help="Why; goes into the operations log.")]
Noted = Annotated[str, typer.Option("--reason", help="Why; a tag of the Dagster run.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")]


def asked_time(text: str) -> datetime | None:
    """As `time_of` reads it. Raises typer.BadParameter."""
    try:
        return time_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
