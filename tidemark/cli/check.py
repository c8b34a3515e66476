"""`tidemark check`: the platform file and the contracts, validated without touching the network."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidemark.cli.output import console
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.errors import ConfigurationError, Problem
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.marts import project_fault

BAD_CONFIGURATION = 2


def check(*, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Validate platform file, contracts and the marts' description offline; exit code 2 when something is wrong."""
    configuration, problems = _load()
    fault = project_fault()
    problems += (fault,) if fault else ()
    if as_json:
        typer.echo(json.dumps(report(configuration, problems), indent=1))
    else:
        _show(configuration, problems)
    if problems:
        raise typer.Exit(BAD_CONFIGURATION)


def report(configuration: Configuration | None, problems: Sequence[Problem]) -> dict[str, Any]:
    """{"ok", "contracts": n, "problems": [{"file", "line", "key", "message", "suggestion"}]}."""
    return {
        "ok": not problems,
        "contracts": len(configuration.contracts) if configuration else 0,
        "problems": [asdict(problem) for problem in problems],
    }


def _load() -> tuple[Configuration | None, tuple[Problem, ...]]:
    try:
        configuration = load_from_environment()
    except ConfigurationError as error:
        return None, error.problems
    return configuration, tuple(each.problem for each in configuration.left_out)


def _show(configuration: Configuration | None, problems: Sequence[Problem]) -> None:
    if problems:
        console(as_json=True).print(_problems(problems), soft_wrap=True)
    if configuration:
        console().print(_contracts(configuration))


def _problems(problems: Sequence[Problem]) -> Text:
    """As a compiler prints them: places on lines of their own, for editors and terminals to jump to."""
    lines = []
    for each in problems:
        place = f"{each.file}:{each.line}" if each.line else each.file
        meant = (
            Text.assemble(". Did you mean ", (each.suggestion, "green"), "?") if each.suggestion else Text()
        )
        lines.append(Text.assemble((place, "bold"), "  ", (each.key, "cyan")))
        lines.append(Text.assemble("    ", each.message, meant))
    files = len({problem.file for problem in problems})
    found = f"{_many(len(problems), 'problem')} in {_many(files, 'file')}"
    return Text("\n").join([*lines, Text(found, "bold red")])


def _contracts(configuration: Configuration) -> Table:
    stack = "embedded stack" if configuration.platform.embedded else "platform file"
    table = Table(title=f"{_many(len(configuration.contracts), 'contract')}, {stack}")
    for heading in ("topic", "table", "format", "lane", "owner"):
        table.add_column(heading, overflow="fold")
    for each in configuration.contracts:
        table.add_row(each.topic, each.table, each.value.format, each.lane, each.owners.data or "")
    return table


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
