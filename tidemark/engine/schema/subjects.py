"""Which registered schemas the values of a topic are read with: by schema id, newest, pinned, or by record name.

Subject name strategies: `<topic>-value` unless the contract names a subject; with `events` also `<record>` and
`<topic>-<record>`, for each table those of its own record alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.registry import RegisteredSchema, Registry
from tidemark.engine.decode.decoding import Framing


@dataclass(frozen=True, slots=True)
class Listed:
    """Schemas that a table's values may be written with, oldest version first, and how values name them."""

    versions: tuple[RegisteredSchema, ...]
    framing: Framing = "confluent"


def subjects_of(contract: Contract) -> tuple[str, ...]:
    """The subjects that the contract lets its values be written with."""
    if contract.value.subject:
        return (contract.value.subject,)
    by_topic = f"{contract.topic}-value"
    if contract.event is None:
        return (by_topic,)
    return (by_topic, contract.event, f"{contract.topic}-{contract.event}")


def subject_of(contract: Contract) -> str:
    """The subjects that the contract lets its values be written with, for a person."""
    return " or ".join(subjects_of(contract))


def reading_of(contract: Contract) -> str:
    """What the contract takes the values for, in words."""
    value = contract.value
    if value.format not in REGISTRY_FORMATS:
        return f"format {value.format}"
    message = f"message {contract.event or value.message} of " if contract.event or value.message else ""
    which = {"by_schema_id": "", "by_latest_schema": "the newest version of "}
    version = which.get(value.schema_mode, f"version {value.version} of ")
    return f"{message}{version}subject {subject_of(contract)}"


def read_listed(lake: Lake, contract: Contract) -> Listed:
    """What the registry lists now.

    Raises:
        Outage: `registry_down`.
        Stopped: `misconfigured` when the one schema that the contract asks for is not there.
    """
    registry = lake.registry(contract.cluster)
    match contract.value.schema_mode:
        case "by_latest_schema":
            return Listed((_latest(registry, contract),), "bare")
        case "pinned":
            return Listed((_pinned(registry, contract),), "bare")
    found = [registry.versions(subject) for subject in subjects_of(contract)]
    return Listed(in_order([versions for versions in found if versions]))


def in_order(subjects: Sequence[Sequence[RegisteredSchema]]) -> tuple[RegisteredSchema, ...]:
    """Each schema once, oldest first; one that was registered again is as new as its last version.

    Version numbers of several subjects do not compare: their schemas are numbered anew, by id. Deleted ones come first,
    so that they decide nothing, and are left out where no other schema has their type.
    """
    newest = {each.id: each for each in sorted(chain.from_iterable(subjects), key=_age)}
    if len(subjects) > 1:
        newest = {i: replace(newest[i], version=number) for number, i in enumerate(sorted(newest), 1)}
    types = {each.type for each in newest.values() if not each.deleted}
    return tuple(each for each in sorted(newest.values(), key=_age) if each.type in types)


def _age(version: RegisteredSchema) -> tuple[bool, int]:
    return not version.deleted, version.version


def _latest(registry: Registry, contract: Contract) -> RegisteredSchema:
    found = registry.latest(subject_of(contract))
    if found is None:
        raise _missing(contract, f"the schema registry has no subject {subject_of(contract)}")
    return found


def _pinned(registry: Registry, contract: Contract) -> RegisteredSchema:
    subject, number = subject_of(contract), contract.value.version or 0
    found = registry.version(subject, number)
    if found is not None:
        return found
    numbers = registry.numbers(subject)
    if not numbers:
        raise _missing(contract, f"the schema registry has no subject {subject}")
    listed = ", ".join(map(str, numbers))
    raise _missing(contract, f"subject {subject} has no version {number}: there are {listed}")


def _missing(contract: Contract, what: str) -> Stopped:
    return Stopped(
        "misconfigured",
        contract.table,
        f"{what}, and the contract says schema: {contract.value.schema_mode}.",
        topic=contract.topic,
        subject=subject_of(contract),
    )
