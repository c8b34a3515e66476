"""The live table: what was produced, what can be read, and how far apart they are."""

import os
import time
from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tidemark.cli.output import ago, number, state_text
from tidemark.cli.status import statuses_of
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.errors import ConfigurationError
from tidemark.domain.times import age
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.engine.config.follow import Followed
from tidemark.engine.look.status import Status

_AROUND = 4
"""Lines beside those of tables: the heading, an empty one, the footer's first, and the cursor's."""

_NARROW = 80
"""Columns of a terminal, at least: how often a long line is broken."""


class Board:
    """Looks at all tables when it is asked to; keeps its connections as long as the files say the same."""

    def __init__(self, configuration: Configuration) -> None:
        self.lake = Lake(configuration)
        self._files = Followed(places(os.environ))
        self.broken: list[str] = []
        """What is wrong with the files; the tables of the last ones that could be read are shown meanwhile."""
        self.seen: dict[str, Status] = {}
        """By table, worst first."""
        self.cpu = 0.0
        """Seconds that the last look took of a core, whatever it waited."""

    def refresh(self) -> None:
        """Ask Kafka and the catalog about the tables that are on disk now."""
        before = time.process_time()
        self._follow()
        found = statuses_of(self.lake, self.lake.configuration.contracts, self._files.where.home)
        self.seen = {each.table: each for each in found}
        self.cpu = time.process_time() - before

    def _follow(self) -> None:
        try:
            found = self._files.now()
        except ConfigurationError as error:
            self.broken = [str(each) for each in error.problems]
            return
        self.broken = []
        if found != self.lake.configuration:
            self.lake.close()
            self.lake = Lake(found)

    def render(self, produced: Mapping[str, int], footer: Text, height: int | None = None) -> Group:
        """As a table by name, with a footer below; where there are more than `height` lines, worst first, and cut."""
        more = f" (and {len(self.broken) - 1} more: tidemark check)" if len(self.broken) > 1 else ""
        below: list[Text] = [Text(f"{first}{more}", style="red") for first in self.broken[:1]]
        shown = sorted(self.seen.values(), key=lambda each: each.table)
        taken = _AROUND + footer.plain.count("\n") + sum(1 + each.cell_len // _NARROW for each in below)
        room = height - taken if height else len(shown)
        is_cut = len(shown) > room
        if is_cut:
            worst = list(self.seen.values())
            shown, rest = worst[: max(1, room - 1)], worst[max(1, room - 1) :]
            fresh = sum(each.state == "fresh" for each in rest)
            below.insert(
                0, Text(f"and {len(rest)} more, {fresh} of them fresh: tidemark status", style="dim")
            )
        table = Table(box=None, pad_edge=False)
        table.add_column("topic → table", no_wrap=is_cut)
        table.add_column("state", no_wrap=True, min_width=8)
        for heading in ("produced", "readable", "quarantined", "lag", "behind", "newest row"):
            table.add_column(heading, justify="right", no_wrap=True)
        for each in shown:
            counted = produced.get(each.topic, sum(each.end.values()) if each.end else None)
            table.add_row(
                f"{each.topic} → {each.table}",
                state_text(each.state),
                number(counted),
                number(each.rows),
                number(each.quarantined),
                number(each.lag_records),
                age(each.lag_seconds),
                Text(ago(each.table_clock)),
            )
        return Group(table, *below, "", footer)
