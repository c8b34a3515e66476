"""The verb `replay`: which of the two replays is meant."""

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.table.operations import Operation, Signature


def replay(
    lake: Lake, contract: Contract, selection: Selection, signature: Signature, *, quarantine: bool
) -> Operation:
    """Replay what `selection` names of the quarantine, or its range of offsets from Kafka.

    Raises:
        Refused: the arguments do not say what is meant, or the replay would do harm; nothing was changed.
        Stopped, Outage: see the two.
    """
    partition, first, upto = selection.partition, selection.first, selection.upto
    if quarantine:
        if partition is None and (first is not None or upto is not None):
            raise Refused(
                "offsets are those of a partition: name it",
                next_step=f"tidemark replay {contract.table} --quarantine --partition p --from a --to b --reason …",
                table=contract.table,
            )
        return replay_quarantine(lake, contract, selection, signature)
    if selection.cause is not None:
        raise Refused(
            "a cause selects quarantined records: say quarantine too",
            next_step=f"tidemark replay {contract.table} --quarantine --cause {selection.cause} --reason …",
            table=contract.table,
        )
    if partition is None or first is None or upto is None:
        raise Refused(
            "say quarantine, or partition and both ends of a range of offsets",
            next_step=f"tidemark replay {contract.table} --partition p --from a --to b --reason …",
            table=contract.table,
        )
    return replay_range(lake, contract, partition, first, upto, signature)
