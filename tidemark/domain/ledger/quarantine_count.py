"""How many rows of a quarantine wait for a remedy, and for how long a count holds: it opens a file per failed batch."""

from dataclasses import dataclass

from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import waiting
from tidemark.domain.ledger.settlement import Settlement

Moment = tuple[str, int | None, Settlement | None]
"""Of a quarantine table: its uuid, its snapshot, and what the newest receipt asks of it that is not done yet."""


@dataclass(frozen=True, slots=True)
class QuarantineCount:
    """`open` rows of a quarantine at `moment`, under `ledger`; `whole`: none of its rows lies beyond that."""

    moment: Moment
    ledger: Ledger
    open: int
    whole: bool

    def holds(self, moment: Moment, ledger: Ledger) -> bool:
        """Whether counting again could find nothing else."""
        then = self.ledger
        if moment != self.moment:
            return False
        if ledger.epoch != then.epoch:
            return self.whole and ledger.epoch > then.epoch
        return ledger.next == then.next or (self.whole and not waiting(ledger.next, then.next))
