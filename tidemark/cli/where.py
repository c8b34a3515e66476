"""`tidemark where`: the fate of a record, by offset or by key, from every table that its topic feeds."""

import re
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

import typer
import yaml

from tidemark.cli.border import FINDING
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import loaded
from tidemark.cli.each_table import each_apart
from tidemark.cli.output import console, print_json, show_error
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Refused, Stopped
from tidemark.domain.suggest import nearest
from tidemark.engine.access.lake import Lake
from tidemark.engine.verify.fates import Answer
from tidemark.engine.verify.where import where_key, where_offset

_PLACE = re.compile(r"(\d+):(\d+)")


def where(topic: str, place: str | None, key: str | None, *, as_json: bool) -> None:
    """Exit code 1 when a table cannot be seen, or a record that was read is nowhere, and not by contract.

    Raises:
        Refused: no contract reads the topic, or none of their topics has the partition.
        Stopped, Outage: no table can be seen.
    """
    if (place is None) == (key is None):
        raise typer.BadParameter("say either PARTITION:OFFSET or --key")
    configuration = load_contracts()
    fed = [each for each in configuration.contracts if each.topic == topic]
    if not fed:
        raise _unread(configuration, topic)
    lake, wanted = Lake(configuration), None if key is None else _keys(key)
    lake.loaded = loaded([each.table for each in fed])
    told, unknown = each_apart({each.table: partial(_answers, lake, each, place, wanted) for each in fed})
    found = [each for each in told if not isinstance(each, Refused)]
    beyond = list(dict.fromkeys(each.message for each in told if isinstance(each, Refused)))
    if unknown and not found:
        raise next(iter(unknown.values()))
    if beyond and not found:
        raise Refused("; ".join(beyond), next_step="name one of these")
    for message in beyond:
        console(as_json=True).print(message)
    answers = list(chain.from_iterable(found))
    if as_json:
        untold = (_unknown(topic, *each) for each in unknown.items())
        print_json([*(each.as_json() for each in answers), *untold])
    else:
        _show(answers)
        for error in unknown.values():
            show_error(error.message, error.next_step)
    if unknown or any(each.lost for each in answers):
        raise typer.Exit(FINDING)


def _unread(configuration: Configuration, topic: str) -> Refused:
    left_out = [str(each) for each in configuration.left_out if each.topic == topic]
    if left_out:
        step = "mend the contract of the pattern, or write one for this topic"
        return Refused("; ".join(left_out), next_step=step)
    near = nearest(topic, sorted({each.topic for each in configuration.contracts}))
    return Refused(
        f"no contract reads topic {topic}" + (f"; did you mean {near}?" if near else ""),
        next_step="tidemark check; of what a backfill brought from there, where --key with the topic of its table",
    )


def _keys(text: str) -> tuple[bytes, ...]:
    """What a key may be that is given so: `0x41` is one byte, and can be a text of four letters."""
    if not text.startswith("0x"):
        return (text.encode(),)
    try:
        return bytes.fromhex(text[2:]), text.encode()
    except ValueError:
        meant = f"--key 0x{text.encode().hex()}"
        raise typer.BadParameter(
            f"--key {text}: what follows 0x must be pairs of hexadecimal digits; for the text {text} say {meant}"
        ) from None


def _answers(
    lake: Lake, contract: Contract, place: str | None, keys: tuple[bytes, ...] | None
) -> list[Answer] | Refused:
    """Refused where the topic of this table has no such partition: that of another cluster may."""
    if keys is not None:
        return [answer for key in keys for answer in _of_key(lake, contract, key)]
    named = _PLACE.fullmatch(place or "")
    if named is None:
        raise typer.BadParameter(f"{place} is not PARTITION:OFFSET")
    try:
        return where_offset(lake, contract, int(named[1]), int(named[2]))
    except Refused as beyond:
        return beyond


def _of_key(lake: Lake, contract: Contract, key: bytes) -> list[Answer]:
    answers, records = where_key(lake, contract, key)
    if records > len(answers):
        said = f"{contract.table}: the newest {len(answers)} of {records} records of this key"
        console(as_json=True).print(said, soft_wrap=True)
    return answers


def _unknown(topic: str, table: str, error: Stopped | Outage) -> Mapping[str, Any]:
    """The shape of `where --json` for a table that cannot be seen."""
    place = {"table": table, "topic": topic, "partition": None, "offset": None}
    return {**place, "fate": None, "meaning": "", "why": error.message, "error": error.as_json()}


def _show(answers: list[Answer]) -> None:
    out = console()
    if not answers:
        out.print(
            "No row and no quarantined record has this key; records that are not read yet were not looked at."
        )
    for each in answers:
        told = each.as_json()
        head = f"{each.topic} {each.partition}:{each.offset} in {each.table}: {each.fate} ({told['meaning']})"
        out.print(head, style="bold")
        hidden = {"table", "topic", "partition", "offset", "fate", "meaning"}
        details = {k: v for k, v in told.items() if k not in hidden and v not in (None, "", [], {})}
        if details:
            out.print(_as_yaml(details))


def _as_yaml(details: Mapping[str, Any]) -> str:
    """The details of an answer; of a record that is nested too deep to be written so, JSON has what was decoded."""
    try:
        return yaml.safe_dump(dict(details), sort_keys=False, allow_unicode=True).rstrip()
    except RecursionError:
        record = {**details["record"], "decoded": "nested too deep to be shown here, see --json"}
        return yaml.safe_dump({**details, "record": record}, sort_keys=False, allow_unicode=True).rstrip()
