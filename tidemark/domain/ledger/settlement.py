"""What a receipt asks of the quarantine table: the second half of a commit over two tables.

The receipt is published first and is the truth. The quarantine follows: it names the last settlement that it has
carried out, so a process that dies in between leaves nothing in doubt (docs/adr/0007).
"""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

STAGED = "staged:"
"""`resolved_by` of rows that wait for their receipt: nobody counts them before."""
ABANDONED = f"resolved_by LIKE '{STAGED}%' AND resolved_at < current_timestamp() - INTERVAL 1 DAY"
"""SQL: what attempts that died had staged; one whose receipt stands was carried out before another may begin."""


class Resolution(NamedTuple):
    """Marks in the quarantine are known by the run and the moment (Unix microseconds) that they name."""

    run_id: str
    at: int


class Settlement(BaseModel):
    """One change of a quarantine table, in this order. It can be carried out again without harm.

    dropped   rows that these batches had put there go
    undone    rows that these had resolved wait again
    rewound   rows of this epoch at or above these offsets go, and those of later epochs
    resolved  rows that wait at these offsets are marked as resolved by `run_id` at `at`
    revealed  rows that `attempt` had staged as `id` wait from now on
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    epoch: int
    run_id: str
    at: int
    dropped: list[str] = Field(default_factory=list)
    undone: list[Resolution] = Field(default_factory=list)
    rewound: dict[int, int] | None = None
    resolved: dict[int, list[tuple[int, int]]] = Field(default_factory=dict)
    revealed: bool = False
    attempt: str = ""
    """Which one, where several may be on their way to the same `id`."""

    @property
    def staged(self) -> str:
        """What rows that this settlement reveals name as `resolved_by` until then."""
        return f"{STAGED}{self.id}{self.attempt and f'_{self.attempt}'}"


def taken_back(settlements: Iterable[Settlement]) -> tuple[list[str], list[Resolution]]:
    """(dropped, undone) of a rollback that takes back the receipts which asked for `settlements`.

    What a rollback among them asked for is not repeated: the receipts that it took back are no ancestors any more.
    """
    dropped: list[str] = []
    undone: list[Resolution] = []
    for each in settlements:
        if each.revealed:
            dropped.append(each.id)
        if each.resolved:
            undone.append(Resolution(each.run_id, each.at))
    return sorted(set(dropped)), sorted(set(undone))
