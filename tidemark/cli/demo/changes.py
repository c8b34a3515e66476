"""The second half of the tour: schemas that change, who lets them through, and what reviewers look at."""

import json
from datetime import UTC, datetime

from tidemark.cli.demo.records import CHANNEL, ORDER_WITH_CHANNEL, order_of_another_type
from tidemark.cli.demo.tour import TABLE, TOPIC, Tour
from tidemark.engine.access.table_state import load

FEW = 3
"""Orders that are written with the schema that does not fit."""


def new_column(tour: Tour) -> bool:
    """A schema with one more field: the table has the column before the first record that needs it."""
    tour.title("4  A new column appears by itself")
    tour.traffic.write_orders_with(ORDER_WITH_CHANNEL)
    tour.console.print(
        f"The shop has registered a schema with one more field, {CHANNEL['name']}, and writes it from now on."
    )
    there = tour.until(lambda: CHANNEL["name"] in _columns(tour))
    tour.run(["tidemark", "schema", TABLE])
    return tour.verdict(there, "the column is there, nobody had to do anything; older rows read NULL")


def parked_change(tour: Tour) -> bool:
    """A schema that the table cannot hold: records wait, a person decides, and it is kept who did."""
    tour.title("5  A change that does not fit waits for a person")
    before = tour.board.seen[TABLE].quarantined or 0
    tour.traffic.send_orders_against_the_rules(order_of_another_type(f"As of {datetime.now(UTC)}"), FEW)
    tour.console.print("Somebody switched the registry's check off, and writes the amount as text.")
    tour.run(["tidemark", "plan", TABLE])
    planned = json.loads(tour.ask(["tidemark", "plan", TABLE, "--json"]) or "[{}]")
    [found] = planned if isinstance(planned, list) else [planned]
    if found.get("verdict") != "review":
        return tour.verdict(False, f"the plan should await a review, and says {found.get('verdict')}")
    owner = tour.stage.configuration.contract(TABLE).owners.data or ""
    why = "the shop mends its producer; aside with these"
    tour.run(["tidemark", "approve", TABLE, found["plan"], "--by", owner, "--reason", why])
    aside = tour.until(lambda: (tour.board.seen[TABLE].quarantined or 0) >= before + FEW)
    flows = tour.board.seen[TABLE].rows or 0
    flows = tour.until(lambda: (tour.board.seen[TABLE].rows or 0) > flows)
    tour.run(["tidemark", "status", TABLE, "--quarantine"])
    return tour.verdict(
        aside and flows, "approved by name and reason, the records are in quarantine, the others went on"
    )


def what_reviewers_see(tour: Tour) -> bool:
    """The asset graph of all topics, tables and marts, and one page about each table."""
    tour.title("6  The asset graph and the review pack")
    tour.console.print(f"Asset graph: [bold]{tour.stage.dagster.url}/asset-groups[/]", markup=True)
    folder = tour.stage.dagster.home / "review"
    answer = tour.run(["tidemark", "report", "--out", str(folder)])
    page = folder / "index.html"
    tour.console.print(f"Review pack: [bold]{page.as_uri()}[/]", soft_wrap=True, markup=True)
    return tour.verdict(
        answer.returncode == 0 and page.is_file(),
        f"one page about every table, made of {TOPIC} and the others",
    )


def _columns(tour: Tour) -> list[str]:
    table = load(tour.board.lake.catalog, TABLE)
    return table.schema().column_names if table else []
