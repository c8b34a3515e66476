"""The configuration of one installation: the platform, and one contract per table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.layering import Origin
from tidemark.domain.config.platform import Platform
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Problem, Refused
from tidemark.domain.suggest import nearest


@dataclass(frozen=True, slots=True)
class Pattern:
    """A `topics:` contract: which topics of a cluster it takes, and the file that says so."""

    cluster: str
    topics: str
    file: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A topic that a pattern matched and that has no table, and why."""

    cluster: str
    topic: str
    problem: Problem

    def __str__(self) -> str:
        return f"topic {self.topic} is left out: {self.problem}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was loaded; `contracts` are sorted by table and patterns are already expanded.

    `origins`: table -> dotted key -> where its value was set. `left_out`: topics that a pattern matched and
    that cannot have a table (the name is taken or impossible); the others go on without them.
    `loaded`: table -> [cluster, topic] that it was loaded from, where that was seen; also of tables without a contract.
    `defaults`: what contracts inherit that lie in the contracts folder itself, as the files say it.
    """

    platform: Platform
    contracts: tuple[Contract, ...] = ()
    origins: Mapping[str, Mapping[str, Origin]] = field(default_factory=dict)
    patterns: tuple[Pattern, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    loaded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def contract(self, table: str) -> Contract:
        """The contract of `table` (namespace.name).

        Raises:
            Refused: there is none; names the nearest table, or the append table of an upsert table.
        """
        for contract in self.contracts:
            if contract.table == table:
                return contract
        made_of = upsert_tables(self.contracts).get(table)
        if made_of is not None:
            raise Refused(
                f"{table} is merged from {made_of.append.table} and follows it, by its sensor or tidemark run: "
                "name that one",
                next_step=f"the same for {made_of.append.table}",
                table=table,
                append_table=made_of.append.table,
            )
        meant = nearest(
            table, [*(contract.table for contract in self.contracts), *upsert_tables(self.contracts)]
        )
        raise Refused(
            f"no contract makes a table {table}",
            next_step=f"did you mean {meant}?" if meant else "tidemark check lists the contracts",
            table=table,
        )

    def any_table(self, table: str) -> Contract:
        """As `contract`, upsert tables by their names included."""
        found = upsert_tables(self.contracts).get(table)
        return found.contract if found else self.contract(table)

    def lane(self, name: str) -> tuple[Contract, ...]:
        """The contracts whose tables share the runs of a lane."""
        return tuple(contract for contract in self.contracts if contract.lane == name)
