"""`tidemark new TOPIC`: a contract for a topic that has none, and whether it fits."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
import yaml

import tidemark
from tidemark.cli.border import FINDING
from tidemark.cli.contracts import load_contracts
from tidemark.cli.output import console, number, print_json
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.expansion import stands_in_the_way
from tidemark.domain.config.naming import is_topic
from tidemark.domain.errors import Refused
from tidemark.domain.plan.proposal import Proposal, Reason, propose
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.engine.preview.survey import survey
from tidemark.engine.whole_file import written_aside

SCHEMA = Path(tidemark.__file__).parent.parent / "docs" / "contract.schema.json"
"""Is there in a clone, not in a package that was installed."""


def new(topic: str, *, cluster: str | None, sample: int, dry_run: bool, as_json: bool) -> None:
    """Exit code 1 when the topic does not fit: then nothing is written. Without `cluster` it is that of the defaults.

    Raises:
        Refused: no such topic, or it has a contract, or the file is there.
    """
    if not is_topic(topic):
        raise Refused(
            f"{topic!r} is not a topic name: letters, digits, dot, _ and -, at most 249",
            next_step="name a topic of the cluster",
        )
    configuration = load_contracts()
    inherited = configuration.defaults
    where = cluster or inherited.get("cluster", "main")
    taken = [c.table for c in configuration.contracts if (c.topic, c.cluster) == (topic, where)]
    if taken:
        raise Refused(
            f"topic {topic} has a contract already: it makes {taken[0]}",
            next_step=f"tidemark plan {taken[0]}",
        )
    file = places(os.environ).contracts_dir / file_name(topic)
    if file.exists() and not dry_run:
        raise Refused(f"{file} is there already", next_step="--dry-run prints what would be written")
    lake = Lake(configuration)
    seen = survey(lake, topic, where, sample, inherited)
    found = beside(propose(seen, inherited), configuration.contracts)
    text = schema_line(file.parent) + yaml.safe_dump(
        dict(found.contract), sort_keys=False, allow_unicode=True
    )
    written = found.fits and not dry_run
    if written:
        _write(file, text)
    _tell(found, file, text, written=written, as_json=as_json)
    if not found.fits:
        raise typer.Exit(FINDING)


def schema_line(folder: Path) -> str:
    """By which editors complete a contract in `folder`; empty where the schema is not there."""
    relative = os.path.relpath(SCHEMA, folder.absolute())
    return f"# yaml-language-server: $schema={relative}\n" if SCHEMA.is_file() else ""


def file_name(topic: str) -> str:
    """Of its contract: files that begin with _ or a dot are not read as contracts."""
    return f"t{topic}.yaml" if topic.startswith(("_", ".")) else f"{topic}.yaml"


def beside(found: Proposal, contracts: Sequence[Contract]) -> Proposal:
    """The proposal, which does not fit where another contract makes its table: both would be refused."""
    proposed = Contract.model_validate({**found.contract, "table": found.seen.table})
    other = stands_in_the_way(proposed, contracts)
    if other is None:
        return found
    says = (
        f"table {proposed.table}, or one beside it, is also made by the contract of topic {other.topic} "
        f"({other.table}): name another `table`"
    )
    return replace(found, reasons=(*found.reasons, Reason("no_fit", says)))


def _write(file: Path, text: str) -> None:
    """Whole or not at all: half of a contract would stop every lane."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with written_aside(file, text) as aside:
            _put(aside, file)
    except FileExistsError:
        raise Refused(
            f"{file} is there already", next_step="--dry-run prints what would be written"
        ) from None


def _put(aside: Path, file: Path) -> None:
    try:
        os.link(aside, file)  # unlike a rename it takes no other's place
    except FileExistsError:
        raise
    except OSError:  # this file system has no hard links
        if file.exists():
            raise FileExistsError(file) from None
        aside.replace(file)


def _tell(found: Proposal, file: Path, text: str, *, written: bool, as_json: bool) -> None:
    told: dict[str, Any] = {**found.as_json(), "file": str(file), "written": written, "yaml": text}
    if as_json:
        print_json(told)
        return
    out = console()
    out.print(f"{found.seen.topic}: {'fits' if found.fits else 'does not fit'}", style="bold")
    size, keys = found.seen.sizes, found.seen.keys
    out.print(
        f"{number(size.records)} records, {number(size.records_per_day)} in the last day, {number(size.record_bytes)} "
        f"bytes each; {number(keys.distinct)} distinct keys in {number(keys.sampled)} records"
    )
    for reason in found.reasons:
        style = "red" if reason.level == "no_fit" else "yellow"
        out.print(f"{'no fit' if reason.level == 'no_fit' else 'note'}: {reason.text}", style=style)
    out.print(f"{file}{'' if written else ' (not written)'}:", style="dim")
    out.print(text)
    if written:
        out.print(f"Next: tidemark check, then tidemark plan {found.seen.table} --sample 1000")
