"""`tidemark services …`: the embedded stack alone, detached."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidemark.cli.border import report
from tidemark.cli.demo.hold import end_leftovers
from tidemark.services.errors import ServiceError
from tidemark.services.java import install_java
from tidemark.services.progress import on_console
from tidemark.services.stack import Stack, default_home

services_app = typer.Typer(
    help="The embedded stack: Kafka, schema registry, Spark Connect.", no_args_is_help=True
)
_NOT_STARTED = 2
"""Exit code where Java, an artifact or the machine stands in the way: nothing about a table was found."""
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@services_app.command()
def up(*, as_json: AsJson = False) -> None:
    """Start what does not run and wait until all of it answers."""
    console = Console(stderr=as_json)
    try:
        with on_console(console) as show:
            status = Stack(default_home()).up(show)
    except ServiceError as error:
        report(error, as_json=as_json)
        raise typer.Exit(_NOT_STARTED) from None
    except KeyboardInterrupt:
        console.print("Interrupted; what had been started was stopped again.")
        if as_json:
            raise  # the border says it in JSON
        raise typer.Exit(130) from None
    _show(status, as_json=as_json)


@services_app.command()
def down(*, as_json: AsJson = False) -> None:
    """Stop all of it, and what a killed `dev` left of Dagster; topics, schemas and tables stay."""
    end_leftovers(default_home())
    _show(Stack(default_home()).down(), as_json=as_json)


@services_app.command()
def status(*, as_json: AsJson = False) -> None:
    """Addresses and processes; exit code 1 when one of them does not run."""
    found = Stack(default_home()).status()
    _show(found, as_json=as_json)
    if any(state != "running" for state in found["services"].values()):
        raise typer.Exit(1)


@services_app.command("install-java")
def install_java_command(
    *, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, as_json: AsJson = False
) -> None:
    """Fetch a Java for Tidemark alone (Eclipse Temurin, about 200 MB, into the cache folder)."""
    if as_json and not yes:
        raise typer.BadParameter("nothing is asked under --json: say --yes")
    if not yes:
        typer.confirm("Fetch Eclipse Temurin 21 into Tidemark's cache folder?", abort=True, err=True)
    try:
        java = install_java()
    except ServiceError as error:
        report(error, as_json=as_json)
        raise typer.Exit(_NOT_STARTED) from None
    typer.echo(json.dumps({"java": str(java)}) if as_json else f"Java: {java}")


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    addresses = {
        "kafka": found["kafka"]["bootstrap.servers"],
        "registry": found["schema_registry"]["url"],
        "spark": found["spark"]["remote"],
    }
    table = Table("service", "state", "pid", "address", box=None)
    for name, state in found["services"].items():
        color = {"running": "green", "starting": "yellow", "killed": "red", "stopped": "dim"}[state]
        table.add_row(name, f"[{color}]{state}[/]", str(found["processes"][name] or ""), addresses[name])
    console = Console()
    console.print(table)
    if any(state != "running" for state in found["services"].values()):
        console.print("Next: tidemark services up", style="dim")
