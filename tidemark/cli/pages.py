"""`python -m tidemark.cli.pages`: writes what the documentation takes from the code.

The keys of both files come from their JSON Schemas, the commands from the command line itself, the states at the end
of the operations page from the domain. A test holds the committed pages to what this prints.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from tidemark.cli.main import app
from tidemark.cli.schemas import schemas
from tidemark.domain.states import FINE, OUTAGES, STATES, State, meaning, remedy, safe

FOLDER = Path("docs")
OPERATIONS = "operations.md"
_STATES = "## States\n"
_MADE = "<!-- made by `python -m tidemark.cli.pages`: change the code, not this page -->\n"


def pages(folder: Path) -> dict[str, str]:
    """File name under `folder` -> its text; of the operations page the part before the states stays as it is."""
    written = schemas()
    return {
        "reference/contract.md": _keys(
            "Contract reference",
            "Every key of `contracts/<name>.yaml`. `topic: orders` alone is a whole contract. Editors complete from "
            "[the JSON Schema](../contract.schema.json); unknown keys are errors that name the nearest known one.",
            json.loads(written["contract.schema.json"]),
        ),
        "reference/platform.md": _keys(
            "Platform file reference",
            "Every key of `platform.yaml`. `${NAME}` reads the environment; a missing name is an error. Without the "
            "file the embedded stack is used. [JSON Schema](../platform.schema.json)",
            json.loads(written["platform.schema.json"]),
        ),
        "reference/cli.md": _commands(),
        OPERATIONS: (folder / OPERATIONS).read_text(encoding="utf-8").partition(_STATES)[0] + _states(),
    }


def _keys(title: str, about: str, schema: Mapping[str, Any]) -> str:
    parts = [f"# {title}\n\n{_MADE}\n{about}\n", _table(schema)]
    open_ended = []
    for name, section in schema["$defs"].items():
        shape = section["anyOf"][0] if "anyOf" in section else section
        if shape.get("properties"):
            said = shape.get("description") or section.get("description") or ""
            parts.append(f"\n## {name}\n\n{said}\n\n{_table(shape)}")
        else:
            open_ended.append(name)
    whole = "\n".join(parts)
    for name in open_ended:  # a section that takes any key has no table to link to
        whole = whole.replace(f"[{name}](#{name.lower()})", name)
    return whole


def _table(shape: Mapping[str, Any]) -> str:
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    required = shape.get("required", ())
    for key, item in shape["properties"].items():
        default = "required" if key in required else _default(item.get("default"))
        rows.append(f"| `{key}` | {_cell(_takes(item))} | {default} | {_cell(item.get('description', ''))} |")
    return "\n".join(rows) + "\n"


def _takes(item: Mapping[str, Any]) -> str:
    """The type of a value in words; sections link to their own table."""
    if "$ref" in item:
        name = str(item["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if "$defs" in item["$ref"] else "any contract key"
    if "enum" in item or "const" in item:
        return " ".join(f"`{each}`" for each in item.get("enum", [item.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in item:
            kinds = [_takes(each) for each in item[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if item.get("type") == "array":
        return f"list of {_takes(item.get('items', {}))}"
    if item.get("type") == "object":
        return f"mapping to {_takes(item['additionalProperties'])}" if _mapped(item) else "mapping"
    example = f", as `{item['examples'][0]}`" if item.get("examples") else ""
    return f"{item.get('format', item.get('type', 'anything'))}{example}"


def _mapped(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("additionalProperties"), dict)


def _default(value: Any) -> str:
    if value is None or value in ([], {}):
        return ""
    return "its own keys say" if isinstance(value, dict) else f"`{value}`"


def _commands() -> str:
    root: Any = typer.main.get_command(app)
    parts = [f"# Command line\n\n{_MADE}\n{root.help}\n\n{root.epilog}\n"]
    parts += [_command(words, each) for words, each in _walk(root, "tidemark")]
    return "\n".join(parts)


def _walk(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        each = group.get_command(None, name)
        if hasattr(each, "list_commands"):
            yield from _walk(each, f"{words} {name}")
        else:
            yield f"{words} {name}", each


def _command(words: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join([words, *(each.metavar or each.name.upper() for each in arguments)])
    rows = [
        f"| `{_spelled(each)}` | {_cell(each.help or '')} |" for each in command.params if each.name != "help"
    ]
    table = "\n".join(["", "| | |", "|---|---|", *rows, ""]) if rows else ""
    return f"## {words}\n\n{command.help}\n\n```console\n$ {usage}\n```\n{table}"


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    flag = ", ".join(parameter.opts)
    return flag if parameter.is_flag else f"{flag} {(parameter.metavar or parameter.name).upper()}"


def _states() -> str:
    about = (
        "Fine: `fresh`, `lagging`, `paused`. Outages are tried again within a minute. Every other state is a stop: it "
        "is tried again too, after ten minutes at most (half an hour where a batch is held back; longer while a run "
        "lingers in a lane of many hundred tables) and when something changes, but as a rule only its remedy ends it. "
        "The attempt that stopped has published nothing, and the other tables go on; a verb that publishes in several "
        "commits says which are done."
    )
    names = {"table": "TABLE", "topic": "TOPIC", "cluster": "CLUSTER"}
    parts = [f"{_STATES}\n{_MADE}\n{about}\n"]
    for state in STATES:
        then, kept = remedy(state, **names), safe(state, **names)
        parts.append(f"### {state}\n\n*{_kind(state)}.* {meaning(state, **names)}\n")
        parts += [f"**Not lost:** {kept}\n"] if kept else []
        parts += [f"**Remedy:** {then}\n"] if then else []
    return "\n".join(parts)


def _kind(state: State) -> str:
    if state in FINE:
        return "fine"
    return "outage, retried" if state in OUTAGES else "stop"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: Sequence[str]) -> None:
    """Into the folder that is named, or docs."""
    folder = Path(arguments[0]) if arguments else FOLDER
    for name, text in pages(folder).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
