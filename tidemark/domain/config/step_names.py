"""What tables and rules are called inside Dagster's steps: the parts of a key are joined there, so that two can be one.

`shop.a__b` and `shop__a.b` are both `shop__a__b`, and a step with two things of one name does not load, nor anything
else beside it. Asset keys never meet: they keep their parts.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.layering import KeyPath


class StepName(NamedTuple):
    """What one contract brings into a step; `key` is where the contract says so, `what` names it for people."""

    step: str
    name: str
    key: KeyPath
    what: str


def step_names(contract: Contract) -> Iterator[StepName]:
    """Everything that the contract brings into steps which it shares with others."""
    place: KeyPath = ("events", contract.event) if contract.event else ("table",)
    table, ingest = _joined(contract.table), f"ingest {contract.lane}"
    yield StepName("tables", table, place, f"table {contract.table}")
    yield StepName(ingest, table, place, f"table {contract.table}")
    checks: list[tuple[str, KeyPath]] = [("quarantine_rate", place), ("reconciliation", place)]
    if contract.event_time:
        checks.append(("event_time", ("event_time",)))
    checks += [(rule.title, ("quality", number)) for number, rule in enumerate(contract.quality)]
    for check, key in checks:
        yield StepName(ingest, f"{table}_{check}", key, f"check {check} of {contract.table}")
    registry = ("registry_compatibility",) if contract.value.format in REGISTRY_FORMATS else ()
    for check in ("schema_review", *registry):
        yield StepName("tables", f"{table}_{check}", place, f"check {check} of {contract.table}")
    if contract.upsert and contract.upsert.table:
        said = contract.upsert.table
        yield StepName("upsert tables", _joined(said), ("upsert", "table"), f"table {said}")


def _joined(table: str) -> str:
    return table.replace(".", "__")
