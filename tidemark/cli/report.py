"""`tidemark report`: the review pack of some tables as one HTML file, or as JSON."""

import os
from collections.abc import Sequence
from pathlib import Path

from tidemark.cli.choice import chosen_both
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import hints
from tidemark.cli.output import console, print_json
from tidemark.domain.config.units import counted
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.review.collect import Review, reviews
from tidemark.review.write import write


def report(tables: Sequence[str], out: Path | None, *, as_json: bool) -> None:
    """Upsert tables are told with their append tables. What does not answer is said on the page."""
    configuration = load_contracts()
    lake = Lake(configuration)
    contracts, upserts = chosen_both(configuration, tables)
    wanted = {each.table: each for each in (*contracts, *(each.append for each in upserts.values()))}
    home = places(os.environ).home
    found = reviews(lake, list(wanted.values()), home, lambda tables: hints(home, tables))
    if out is not None or not as_json:
        file = _written(found, lake, out or Path("review"))
        size = f"{file.stat().st_size / 1024:,.0f} KB"
        console(as_json=as_json).print(f"{file}  ({counted(len(found), 'table')}, {size})")
    if as_json:
        print_json([each.as_json() for each in found])


def _written(found: Sequence[Review], lake: Lake, folder: Path) -> Path:
    try:
        return write(found, lake.platform.catalog.name, folder)
    except OSError as error:
        raise Refused(
            f"{folder} cannot hold the page: {error.strerror or error}",
            next_step="--out names a folder that you may write to",
        ) from error
