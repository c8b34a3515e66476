"""Why a batch could not be read, asked of Kafka after Spark has failed on it: its exception names no range."""

from contextlib import suppress

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import Ranges
from tidemark.engine.access.lake import Lake
from tidemark.engine.ingest.plan import require_same_topic

_BEYOND_SPARK = (2**63 - 1) // 1000 + 1
"""The first time in Unix milliseconds that Spark's Kafka source cannot hold: it counts microseconds in 64 bits."""
_OVERFLOW = "long overflow"


def readable_before(
    lake: Lake, contract: Contract, ledger: Ledger, ranges: Ranges, error: Exception
) -> dict[int, int]:
    """Offsets per partition before which the failed batch of `ranges` can be read; empty where Kafka knows no reason.

    Raises:
        Stopped: the topic is not what it was, or `misconfigured`: the very next records have times beyond Spark's.
    """
    with suppress(Outage):
        require_same_topic(contract, ledger, lake.topic(contract), "It changed while the batch was read. ")
        if _OVERFLOW in str(error):
            return _before_such_times(lake, contract, ranges)
    return {}


def _before_such_times(lake: Lake, contract: Contract, ranges: Ranges) -> dict[int, int]:
    first = lake.kafka(contract.cluster).offsets_at(contract.topic, ranges, _BEYOND_SPARK)
    found = {p: o for p, o in first.items() if ranges[p].start <= o < ranges[p].end}
    if any(found.get(p) != each.start for p, each in ranges.items()):
        return found
    raise Stopped(
        "misconfigured",
        contract.table,
        "The next records have a time that Spark cannot hold, as a producer writes that takes nanoseconds for "
        f"milliseconds ({'; '.join(f'partition {p}: offset {o}' for p, o in found.items())}).",
        next_step="mend the producer, move the log start beyond what it has written with kafka-delete-records, then "
        f"tidemark accept {contract.table} --record-gap --reason …",
        topic=contract.topic,
        cluster=contract.cluster,
        ranges={p: [o, o + 1] for p, o in found.items()},
    )
