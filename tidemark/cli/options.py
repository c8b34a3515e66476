"""Arguments and options that several commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Tables = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]…", help="namespace.name; all contracts when left out.")
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.name")]
By = Annotated[str, typer.Option("--by", envvar="TIDEMARK_USER", help="Who changes it (= the login name).")]
Reason = Annotated[str, typer.Option("--reason", help="Why; goes into the operations log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")]
