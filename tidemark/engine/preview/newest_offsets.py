"""The newest records of a topic, as offset ranges."""

from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import OffsetRange


def newest(topic: Topic, records: int) -> dict[int, OffsetRange]:
    """The last offsets of each partition, `records` in all, fairly shared; what a partition lacks the others give."""
    left = {p: end - topic.log_start[p] for p, end in topic.end.items() if end > topic.log_start[p]}
    share = dict.fromkeys(left, 0)
    room = min(records, sum(left.values()))
    while room:
        unfilled = [p for p in sorted(left) if share[p] < left[p]]
        each = max(1, room // len(unfilled))
        for p in unfilled:
            more = min(each, left[p] - share[p], room)
            share[p] += more
            room -= more
    return {p: OffsetRange(topic.end[p] - taken, topic.end[p]) for p, taken in share.items() if taken}
