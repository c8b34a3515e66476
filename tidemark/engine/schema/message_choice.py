"""Which Protobuf message a table that is to be made is of, where the contract names none: its records say it."""

from collections.abc import Sequence

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.newest_records import newest, sampled
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.record_types import NAMED, named_most
from tidemark.engine.schema.writer import messages

LOOKED_AT = 200
"""Records of a topic, the newest ones."""


class Undecided(Exception):
    """No record says it yet."""


def message_of_records(lake: Lake, contract: Contract, versions: Sequence[RegisteredSchema]) -> str | None:
    """The full name of the message that most of the topic's newest records name by schema id and message index.

    None where there is no choice, or none of the records names one: then it is the first of the oldest version.

    Raises:
        Undecided: no value can be read, and the schema has several messages.
        Outage: `kafka_down`.
        Stopped: `permission_denied`.
    """
    if all(len(messages(each)) <= 1 for each in versions):
        return None
    found = lake.kafka(contract.cluster).describe([contract.topic], one_of_many=True).get(contract.topic)
    if found is not None and (values := _values(lake, contract, found)):
        return named_most(versions, values)
    outermost = [_outermost(each) for each in versions]
    if all(len(names) <= 1 for names in outermost):
        return None
    listed = list(dict.fromkeys(name for names in outermost for name in names))
    raise Undecided(
        f"topic {contract.topic} holds no record that can be read, and its schema has {len(listed)} messages, "
        f"{', '.join(listed[:NAMED])}: the first record says which of them the table is for, or `value.message` does"
    )


def _values(lake: Lake, contract: Contract, topic: Topic) -> list[bytes]:
    """Of the newest records; where these are tombstones or were aborted, of the oldest."""
    oldest = {
        p: OffsetRange(start, min(topic.end[p], start + LOOKED_AT))
        for p, start in topic.log_start.items()
        if start < topic.end[p]
    }
    for ranges in (newest(topic, LOOKED_AT), oldest):
        records = sampled(lake, topic, contract.cluster, ranges) if ranges else []
        if values := [each.value for each in records if each.value is not None]:
            return values
    return []


def _outermost(version: RegisteredSchema) -> list[str]:
    return [name for name, index in messages(version).items() if len(index) == 1]
