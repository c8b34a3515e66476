"""From declarations to contracts: patterns meet the topics that were seen, nothing is left to default."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemark.domain.config.contract import (
    FRESH_FAIL,
    FRESH_WARN,
    REGISTRY_FORMATS,
    Contract,
    Declaration,
    group_of,
)
from tidemark.domain.config.contract_rules import PLACEHOLDER
from tidemark.domain.config.layering import BUILT_IN, Finding, KeyPath, Merged, Origin, dotted, leaves
from tidemark.domain.config.naming import (
    ADDED,
    CURRENT,
    DELETED,
    SHADOW,
    as_identifier,
    default_table,
    table_fault,
)
from tidemark.domain.config.step_names import StepName, step_names
from tidemark.domain.config.validation import validate
from tidemark.domain.errors import Problem


@dataclass(frozen=True, slots=True)
class Declared:
    """A contract file that holds by itself."""

    said: Declaration
    merged: Merged

    @property
    def file(self) -> str:
        """The contract file."""
        return self.merged.nearest.document.file


@dataclass(frozen=True, slots=True)
class Resolved:
    """A contract and where its values came from."""

    contract: Contract
    declared: Declared

    @property
    def expanded(self) -> bool:
        """Whether a pattern made it."""
        return self.declared.said.topics is not None

    def loaded_from(self, loaded: Mapping[str, Sequence[str]]) -> bool:
        """Whether the table was loaded from this topic; `loaded`: table -> [cluster, topic]."""
        return list(loaded.get(self.contract.table, ())) == [self.contract.cluster, self.contract.topic]

    def origins(self) -> dict[str, Origin]:
        """Dotted key -> where its value was set."""
        merged = self.declared.merged
        found = {}
        event = None if self.contract.event else {"event"}
        for path in leaves(self.contract.model_dump(mode="json", exclude=event)):
            found[dotted(path)] = _origin(merged, path)
        if self.expanded:
            found["topic"] = merged.origin(("topics",))
        return found

    @property
    def group(self) -> tuple[str, str, str] | None:
        """(cluster, consumer group, topic) that a publish tells how far it has come."""
        named = self.contract.ingest.commit_to_group
        if named is None:
            return None
        return self.contract.cluster, group_of(named, self.contract.table), self.contract.topic

    def problem(self, path: KeyPath, message: str, suggestion: str | None = None) -> Problem:
        """A problem of this contract's file."""
        return self.declared.merged.problem(Finding(path, message, suggestion))


def _origin(merged: Merged, path: KeyPath) -> Origin:
    for end in range(len(path), 0, -1):
        origin = merged.origin(path[:end])
        if origin != BUILT_IN:
            return (
                origin
                if end == len(path) or not isinstance(_at(merged.tree, path[:end]), Mapping)
                else BUILT_IN
            )
    return BUILT_IN


def _at(tree: Any, path: KeyPath) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def matches(declared: Declared, topics: Collection[str], taken: Collection[str]) -> list[str]:
    """The topics that a pattern takes: whole names, none that is internal or has a contract of its own."""
    pattern = re.compile(declared.said.topics or "")
    return [
        topic
        for topic in sorted(topics)
        if pattern.fullmatch(topic) and not topic.startswith("__") and topic not in taken
    ]


def resolve(declared: Declared, topic: str, namespace: str) -> Iterator[Resolved | Problem]:
    """The contracts of one topic, one for each event, or why there can be none; `namespace` is the default one."""
    said = declared.said
    if said.events:
        for event, table in said.events.items():
            yield _contract(declared, topic, table, event)
        return
    table = said.table or default_table(namespace, topic)
    if said.topics is not None and said.table:
        table = _filled(said.table, re.compile(said.topics).fullmatch(topic))
    if fault := table_fault(table):
        yield declared.merged.problem(Finding(("table",), f"topic {topic}: {fault}"))
        return
    yield _contract(declared, topic, table, None)


def _contract(declared: Declared, topic: str, table: str, event: str | None) -> Resolved | Problem:
    contract, findings = validate(Contract, _complete(declared, topic, table, event))
    return Resolved(contract, declared) if contract else declared.merged.problem(findings[0])


def _filled(table: str, found: re.Match[str] | None) -> str:
    """As `default_table`: a name that would begin with a digit begins with t_."""
    groups = found.groupdict() if found else {}
    filled = PLACEHOLDER.sub(lambda place: as_identifier(groups.get(place[1]) or ""), table)
    return re.sub(r"\.(?=\d)", ".t_", filled)


def _complete(declared: Declared, topic: str, table: str, event: str | None) -> dict[str, Any]:
    """The merged tree with everything filled in that depends on other keys."""
    said = declared.said
    tree = {key: value for key, value in declared.merged.tree.items() if key != "topics"}
    tree |= {"topic": topic, "table": table}
    if event:
        tree["event"] = event
    elif said.value.format in REGISTRY_FORMATS:
        tree["value"] = {**(tree.get("value") or {}), "subject": said.value.subject or f"{topic}-value"}
    if not said.approvers and said.owners.data:
        tree["approvers"] = [said.owners.data]
    tree["freshness"] = {**(tree.get("freshness") or {}), **_freshness(said)}
    if said.upsert:
        tree["upsert"] = {**tree["upsert"], "table": said.upsert.table or table + CURRENT}
    return tree


def _freshness(said: Declaration) -> dict[str, timedelta]:
    warn, fail = said.freshness.warn, said.freshness.fail
    late = min(FRESH_WARN * said.target_lag, fail or timedelta.max)
    return {"warn": warn or late, "fail": fail or max(FRESH_FAIL * said.target_lag, warn or timedelta(0))}


def clashes(resolved: Sequence[Resolved]) -> Iterator[tuple[Resolved, Problem]]:
    """Contracts that cannot stand beside one before them: a name is taken, be it in other case or in Dagster."""
    seen: dict[str, tuple[Resolved, str]] = {}
    steps: dict[tuple[str, str], tuple[Resolved, StepName]] = {}
    for each in resolved:
        names = _table_names(each.contract)
        if own := _twice(names):
            yield each, each.problem(own, f"table {names[own]} is another table of this contract")
            continue
        if clash := next((path for path, name in names.items() if name.lower() in seen), None):
            other, taken = seen[names[clash].lower()]
            yield each, each.problem(clash, _clash(each, names[clash], other, taken))
            continue
        brought = list(step_names(each.contract))
        if alike := next((one for one in brought if one[:2] in steps), None):
            yield each, each.problem(alike.key, _alike(alike, *steps[alike[:2]]))
            continue
        seen.update({name.lower(): (each, name) for name in names.values()})
        steps.update({one[:2]: (each, one) for one in brought})


def shared_groups(resolved: Sequence[Resolved]) -> Iterator[tuple[Resolved, Problem]]:
    """Contracts whose consumer group is told of the same topic by one before them."""
    seen: dict[tuple[str, str, str], Resolved] = {}
    for each in resolved:
        if (key := each.group) is None:
            continue
        other = seen.setdefault(key, each)
        if other is not each:
            _, group, topic = key
            message = (
                f"{group} is told of topic {topic} for {other.contract.table} and for {each.contract.table}: "
                "each would overwrite what the other has told it"
            )
            named = each.contract.ingest.commit_to_group or ""
            meant = None if "{table}" in named else f"{named}-{{table}}"
            yield each, each.problem(("ingest", "commit_to_group"), message, meant)


def stands_in_the_way(contract: Contract, others: Iterable[Contract]) -> Contract | None:
    """The first of `others` beside which `contract` cannot stand, as `clashes` sees it."""
    names = {name.lower() for name in _table_names(contract).values()}
    steps = {one[:2] for one in step_names(contract)}
    for other in others:
        shared = names & {name.lower() for name in _table_names(other).values()}
        if shared or steps & {one[:2] for one in step_names(other)}:
            return other
    return None


def _twice(names: Mapping[KeyPath, str]) -> KeyPath | None:
    """The first place that names a table which the contract makes already."""
    known: set[str] = set()
    for path, name in names.items():
        if name.lower() in known:
            return path
        known.add(name.lower())
    return None


def _clash(each: Resolved, name: str, other: Resolved, taken: str) -> str:
    topic = f" (topic {each.contract.topic})" if each.expanded else ""
    event = f", event {other.contract.event}" if other.contract.event else ""
    where = f"{other.declared.file} (topic {other.contract.topic}{event})"
    if name == taken:
        return f"table {name}{topic} is also made by {where}"
    return f"table {name}{topic} differs only by case from {taken}, which is made by {where}"


def _alike(one: StepName, owner: Resolved, other: StepName) -> str:
    place = owner.problem(other.key, "")
    where = f"{place.file}:{place.line}" if place.line else place.file
    return (
        f"{one.what} and {other.what} ({where}) are both {one.name} in Dagster: give one of them another name"
    )


def _table_names(contract: Contract) -> dict[KeyPath, str]:
    place: KeyPath = ("events", contract.event) if contract.event else ("table",)
    names: dict[KeyPath, str] = {
        place: contract.table,
        (*place, "quarantine"): contract.quarantine_table,
        (*place, "backfill"): contract.table + SHADOW,
        (*place, "backfill", "quarantine"): contract.table + ADDED,
    }
    if contract.upsert and contract.upsert.table:
        names["upsert", "table"] = contract.upsert.table
        names["upsert", "table", "deleted"] = contract.upsert.table + DELETED
    return names
