"""What lies in a batch of other Protobuf messages than the table's, and what the contract should say."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.newest_records import newest, sampled
from tidemark.engine.access.outages import asked
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.ready import way_out_if_empty
from tidemark.engine.schema.record_types import Typed, told, typed

_LOOKED_AT = 100


def other_messages(lake: Lake, plan: Plan, causes: Collection[str]) -> str:
    """A sentence for the error of a batch with these `causes`; empty where there are others, or nobody answers."""
    if set(causes) != {"wrong_message_type"} or plan.contract.event:
        return ""
    found = asked(lambda: _types(lake, plan))[0] or []
    own = {w.schema.root.name for w in plan.schemas.writers if isinstance(w.schema, ProtobufMessage)}
    others = [each for each in found if each.name and each.name not in own]
    if not others:
        return ""
    says = f". They are of other messages than {plan.schemas.message}: {told(others)}. "
    if any(each.name in own for each in found) or any(c.written for c in plan.ledger.totals.values()):
        return f"{says}A table is for one message: `events` gives the others tables of their own"
    [(meant, _)] = Counter(each.name for each in others).most_common(1)
    way_out = way_out_if_empty(plan.state)
    return f"{says}If that is what the table is for, say `value: {{message: {meant}}}`" + (
        f". {way_out}" if way_out else ""
    )


def _types(lake: Lake, plan: Plan) -> list[Typed]:
    """Of the newest records of the batch."""
    start = {p: each.start for p, each in plan.ranges.items()}
    batch = replace(plan.topic, log_start=start, end={p: each.end for p, each in plan.ranges.items()})
    cluster = plan.contract.cluster
    records = sampled(lake, batch, cluster, newest(batch, _LOOKED_AT))
    return typed(lake, cluster, [each.value for each in records if each.value is not None])
