"""`maintain`: maintenance of one contract's tables now, as a verb of the command line."""

import dagster as dg
from pydantic import Field

from assets.names import MAINTENANCE_POOL
from jobs.operations import Verb, change_table, verb_job
from resources.lake import LakeResource
from tidemark.domain.maintenance.gain import KINDS, Kind


class Maintain(Verb):
    """What is maintained; everything when nothing is chosen."""

    compaction: bool = Field(default=False, description="rewrite small files and deleted rows")
    snapshots: bool = Field(default=False, description="expire snapshots, and rows beyond `retention`")
    orphans: bool = Field(default=False, description="remove files that no snapshot names")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are meant."""
        chosen = (self.compaction, self.snapshots, self.orphans)
        return tuple(kind for kind, wanted in zip(KINDS, chosen, strict=True) if wanted) or KINDS


@dg.op(pool=MAINTENANCE_POOL)
def maintain_table(context: dg.OpExecutionContext, config: Maintain, lake: LakeResource) -> None:
    """Maintain the tables of a contract now; with dry_run, say what would be done."""
    from tidemark.engine.maintain.maintain import maintain_now  # noqa: PLC0415 - only a step pays for the engine's imports

    change_table(
        context,
        config,
        lake,
        lambda lake, contract, signature: maintain_now(lake, contract, config.kinds, signature),
    )


def maintain_job() -> dg.JobDefinition:
    """The job `maintain`."""
    return verb_job("maintain", maintain_table)
