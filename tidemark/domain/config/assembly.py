"""Files that were read become a Configuration, or one error with every problem of all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.domain.config.configuration import Configuration, LeftOut, Pattern
from tidemark.domain.config.contract import Declaration
from tidemark.domain.config.contract_rules import declaration_findings, setting_findings
from tidemark.domain.config.expansion import Declared, Resolved, clashes, matches, resolve, shared_groups
from tidemark.domain.config.layering import Document, Finding, Layer, Merged, merge
from tidemark.domain.config.platform import CONNECTIONS, EmbeddedPlatform, Platform, stack_connections
from tidemark.domain.config.platform_rules import mistyped_type, platform_findings
from tidemark.domain.config.validation import apart_from, once, salvage, validate
from tidemark.domain.errors import ConfigurationError, Problem

REQUIRED = ("kafka", "catalog", "spark")
"""Connection blocks that a platform file cannot do without once it has one of them."""

STAND_INS = {"catalog": {"type": "glue", "warehouse": "-"}, "spark": {"remote": "sc://-"}}
"""What lets the rest of a platform file be looked at when these blocks are missing or broken."""


@dataclass(frozen=True, slots=True)
class ContractFile:
    """A contract and the `_defaults.yaml` files above it, the outermost first."""

    document: Document
    defaults: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that was read; `problems` are those of reading.

    `topics`: those last seen, by cluster. `loaded`: table -> [cluster, topic] that it was loaded from. `outermost`: the
    defaults of the contracts folder itself.
    """

    platform: Document | None = None
    stack: Mapping[str, Any] | None = None
    contracts: Sequence[ContractFile] = ()
    defaults: Sequence[tuple[Document, ...]] = ()
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    loaded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    outermost: tuple[Document, ...] = ()


def assemble(sources: Sources) -> Configuration:
    """The configuration. Raises ConfigurationError with every problem, sorted by file and line."""
    platform, problems = _platform(sources)
    below = [Layer("platform", sources.platform, ("defaults",))] if sources.platform else []
    for chain in sources.defaults:
        problems += _check_defaults([*below, *_layers(chain)])
    if below:
        problems += _check_defaults(below)
    declared = []
    for file in sources.contracts:
        layers = [*below, *_layers(file.defaults), Layer("contract", file.document)]
        found, faults = _declare(merge(layers), platform)
        declared += [found] if found else []
        problems += faults
    namespace = platform.default_namespace if platform else "lake"
    contracts, left_out, faults = _expand(declared, sources, namespace)
    problems += faults
    around = [*below, *_layers(sources.outermost)]
    if sources.problems or problems or platform is None:
        raise ConfigurationError(_in_order(sources.problems, problems))
    return Configuration(
        platform,
        tuple(each.contract for each in contracts),
        {each.contract.table: each.origins() for each in contracts},
        tuple(
            Pattern(each.said.cluster, each.said.topics, each.file) for each in declared if each.said.topics
        ),
        tuple(left_out),
        sources.loaded,
        merge(around).tree if around else {},
    )


def _layers(defaults: Sequence[Document]) -> list[Layer]:
    return [Layer("defaults", document) for document in defaults]


def _platform(sources: Sources) -> tuple[Platform | None, list[Problem]]:
    document = sources.platform or Document("platform.yaml", {}, {})
    tree = document.tree
    kind: type[Platform] = Platform
    findings: list[Finding] = []
    if not any(key in tree for key in CONNECTIONS):
        kind, tree = EmbeddedPlatform, {**tree, **stack_connections(sources.stack or {})}
    else:
        findings += [Finding((key,), "is missing") for key in REQUIRED if key not in tree]
        findings += mistyped_type(tree)
    platform, faults = validate(kind, tree)
    findings += [fault for fault in faults if fault not in findings]
    sound = platform or salvage(kind, tree, findings, STAND_INS)
    if sound:
        findings += apart_from(platform_findings(sound), findings)
    return sound, [document.problem(finding) for finding in once(findings)]


def _check_defaults(layers: list[Layer]) -> list[Problem]:
    merged = merge(layers)
    said, findings = validate(Declaration, merged.tree)
    if sound := said or salvage(Declaration, merged.tree, findings):
        findings += apart_from(setting_findings(sound), findings)
    tree = layers[-1].tree
    if layers[-1].name == "defaults":
        findings += [
            Finding((key,), "is not a default: it says what one contract is about")
            for key in ("topic", "topics")
            if key in tree
        ]
    return [merged.problem(finding) for finding in once(findings)]


def _declare(merged: Merged, platform: Platform | None) -> tuple[Declared | None, list[Problem]]:
    said, findings = validate(Declaration, merged.tree)
    if sound := said or salvage(Declaration, merged.tree, findings):
        findings += apart_from(declaration_findings(sound, platform), findings)
    problems = [merged.problem(finding) for finding in once(findings)]
    return (Declared(said, merged) if said and not problems else None), problems


def _expand(
    declared: Sequence[Declared], sources: Sources, namespace: str
) -> tuple[list[Resolved], list[LeftOut], list[Problem]]:
    """(contracts by table, what patterns cannot have, what is wrong with the files).

    Of topics that patterns would put into one table, the one that it was loaded from keeps it, also where that is no
    longer listed: it was deleted, or may not be seen any more.
    """
    exact = {(each.said.cluster, each.said.topic) for each in declared if each.said.topic}
    wanted = [(each, each.said.topic) for each in declared if each.said.topic]
    unlisted: list[tuple[Declared, str]] = []
    for each in declared:
        if each.said.topics:
            taken = {topic for cluster, topic in exact if cluster == each.said.cluster and topic}
            seen = sources.topics.get(each.said.cluster, ())
            wanted += [(each, topic) for topic in matches(each, seen, taken)]
            loaded = {place[-1] for place in sources.loaded.values() if [*place[:1]] == [each.said.cluster]}
            unlisted += [(each, topic) for topic in matches(each, loaded.difference(seen), taken)]
    contracts: list[Resolved] = []
    left_out: list[LeftOut] = []
    problems: list[Problem] = []
    for each, topic in wanted:
        for found in resolve(each, topic, namespace):
            if isinstance(found, Resolved):
                contracts.append(found)
            elif each.said.topics:
                left_out.append(LeftOut(each.said.cluster, topic, found))
            else:
                problems.append(found)
    contracts += [
        found
        for each, topic in unlisted
        for found in resolve(each, topic, namespace)
        if isinstance(found, Resolved) and found.loaded_from(sources.loaded)
    ]
    contracts.sort(key=lambda each: each.expanded and not each.loaded_from(sources.loaded))
    for refusing in (clashes, shared_groups):
        for loser, problem in list(refusing(contracts)):
            contracts.remove(loser)
            if loser.expanded:
                left_out.append(LeftOut(loser.contract.cluster, loser.contract.topic, problem))
            else:
                problems.append(problem)
    return sorted(contracts, key=lambda each: each.contract.table), left_out, problems


def _in_order(reading: Sequence[Problem], checking: Sequence[Problem]) -> list[Problem]:
    """Each problem once; a value that could not be read is not blamed a second time for its shape."""
    unread = {(each.file, each.key) for each in reading}
    kept = dict.fromkeys([*reading, *(each for each in checking if (each.file, each.key) not in unread)])
    return sorted(kept, key=lambda each: (each.file, each.line or 0, each.key))
