"""`tidemark where`: the fate of a record, by offset or by key, from every table that its topic feeds."""

import re

import typer
import yaml

from tidemark.cli.border import FINDING
from tidemark.cli.contracts import load_contracts
from tidemark.cli.output import console, print_json
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.suggest import nearest
from tidemark.engine.access.lake import Lake
from tidemark.engine.verify.where import Answer, where_key, where_offset

_PLACE = re.compile(r"(\d+):(\d+)")


def where(topic: str, place: str | None, key: str | None, *, as_json: bool) -> None:
    """Exit code 1 when a record that was read is nowhere, and not by the contract's retention."""
    if (place is None) == (key is None):
        raise typer.BadParameter("say either PARTITION:OFFSET or --key")
    configuration = load_contracts()
    fed = [each for each in configuration.contracts if each.topic == topic]
    if not fed:
        known = sorted({each.topic for each in configuration.contracts})
        near = nearest(topic, known)
        raise Refused(
            f"no contract reads topic {topic}" + (f"; did you mean {near}?" if near else ""),
            next_step="tidemark check",
        )
    lake, wanted = Lake(configuration), None if key is None else _keys(key)
    answers = [answer for each in fed for answer in _answers(lake, each, place, wanted)]
    if as_json:
        print_json([each.as_json() for each in answers])
    else:
        _show(answers)
    if any(each.lost for each in answers):
        raise typer.Exit(FINDING)


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
) -> list[Answer]:
    if keys is not None:
        return [answer for key in keys for answer in where_key(lake, contract, key)]
    named = _PLACE.fullmatch(place or "")
    if named is None:
        raise typer.BadParameter(f"{place} is not PARTITION:OFFSET")
    return where_offset(lake, contract, int(named[1]), int(named[2]))


def _show(answers: list[Answer]) -> None:
    out = console()
    if not answers:
        out.print(
            "No row and no quarantined record has this key; records that are not read yet were not looked at."
        )
    for each in answers:
        told = each.as_json()
        head = f"{each.topic} {each.partition}:{each.offset} in {each.table}: {each.fate} ({told['meaning']})"
        out.print(head, style="bold", markup=False)
        hidden = {"table", "topic", "partition", "offset", "fate", "meaning"}
        details = {k: v for k, v in told.items() if k not in hidden and v not in (None, "", [], {})}
        if details:
            out.print(yaml.safe_dump(details, sort_keys=False, allow_unicode=True).rstrip(), markup=False)
