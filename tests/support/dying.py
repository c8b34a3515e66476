"""A merge, or an act of an operator, that ends at a line of its commit path as if its process had been killed there, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import tidemark.engine.merge.plan as planning
import tidemark.engine.merge.stage as staging
import tidemark.engine.table.branch as branching
import tidemark.engine.table.create as creating
import tidemark.engine.table.operations as operating
import tidemark.engine.table.publish as publishing

POINTS = ("branched", "remembered", "merged", "staged", "audited", "receipted", "publishing", "published")


class Died(BaseException):
    """Stands for SIGKILL: nothing is caught, nothing cleared up."""


@contextmanager
def dying_at(monkeypatch: Any, point: str) -> Iterator[None]:
    """What runs in here ends at `point`, if it comes there."""

    def end(here: str) -> None:
        if here == point:
            raise Died

    with monkeypatch.context() as patch, suppress(Died):
        for module in (creating, planning, staging, publishing, operating):
            patch.setattr(module, "pause_point", end)
        patch.setattr(branching, "drop_branch", lambda *_: None)
        yield
