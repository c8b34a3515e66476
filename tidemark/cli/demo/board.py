"""The live table: what was produced, what can be read, and how far apart they are."""

import os
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidemark.cli.output import age, ago, number, state_text
from tidemark.cli.status import statuses_of
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.engine.config.follow import Followed
from tidemark.engine.look.status import Status


class Board:
    """Looks at all tables when it is asked to; keeps its connections as long as the files say the same."""

    def __init__(self, configuration: Configuration) -> None:
        self.lake = Lake(configuration)
        self._files = Followed(places(os.environ))
        self.broken: list[str] = []
        """What is wrong with the files; the tables of the last ones that could be read are shown meanwhile."""
        self.seen: dict[str, Status] = {}

    def refresh(self) -> None:
        """Ask Kafka and the catalog about the tables that are on disk now."""
        self._follow()
        found = statuses_of(self.lake, self.lake.configuration.contracts, self._files.where.home)
        self.seen = {each.table: each for each in found}

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

    def render(self, produced: Mapping[str, int], footer: RenderableType) -> Group:
        """As a table, with a footer below."""
        table = Table(box=None, pad_edge=False)
        table.add_column("topic → table")
        table.add_column("state", no_wrap=True, min_width=8)
        for heading in ("produced", "readable", "quarantined", "lag", "behind", "newest row"):
            table.add_column(heading, justify="right", no_wrap=True)
        for _, each in sorted(self.seen.items()):
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
        more = f" (and {len(self.broken) - 1} more: tidemark check)" if len(self.broken) > 1 else ""
        wrong = [Text(f"{first}{more}", style="red") for first in self.broken[:1]]
        return Group(table, *wrong, "", footer)
