"""The marts as data: what `dbt_project/assets.json` says of them, and which of them a configuration can have.

The file is made from dbt's manifest (`python -m tidemark.cli.marts`) and committed, so that loading the definitions
needs neither dbt nor a parse.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables

FILE = "assets.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MartColumn(_Part):
    """A column as the project documents it."""

    name: str
    description: str = ""


class MartCheck(_Part):
    """A dbt test; `deps` are the other tables that it reads."""

    name: str
    unique_id: str
    description: str = ""
    deps: tuple[str, ...] = ()
    blocking: bool = True


class Mart(_Part):
    """One dbt model. Tables are `namespace.name`; `upstream` are sources and other marts.

    `keeps`: dbt never makes it anew (a snapshot, `full_refresh: false`).
    """

    table: str
    model: str
    unique_id: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    code_version: str | None = None
    upstream: tuple[str, ...]
    keeps: bool = False
    columns: tuple[MartColumn, ...] = ()
    checks: tuple[MartCheck, ...] = ()


class Project(_Part):
    """The whole project. `sources`: table -> the topic that the mart's author had in mind."""

    digest: str = Field(description="of the project's files: tells whether this file is current")
    sources: dict[str, str]
    marts: tuple[Mart, ...]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises pydantic.ValidationError."""
        return cls.model_validate_json(text)

    def marts_for(self, contracts: Sequence[Contract]) -> list[Mart]:
        """The marts whose sources are all tables of these contracts, fed by the topics that they expect.

        So a folder of contracts that has none of the sample tables has none of their marts, and a mart never takes
        the name of a contract's table, nor one that differs only by case.
        """
        merged = {table: each.append.topic for table, each in upsert_tables(contracts).items()}
        fed = {each.table: each.topic for each in contracts} | merged
        own = [*(name for each in contracts for name in (each.table, each.quarantine_table)), *merged]
        taken = {name.lower() for name in own}
        there = {table for table, topic in self.sources.items() if fed.get(table) == topic}
        chosen: list[Mart] = []
        waiting = [mart for mart in self.marts if mart.table.lower() not in taken]
        while ready := [mart for mart in waiting if set(mart.upstream) <= there]:
            chosen += ready
            there |= {mart.table for mart in ready}
            waiting = [mart for mart in waiting if mart not in ready]
        return sorted(chosen, key=lambda each: each.table)


def downstream(contract: Contract, marts: Sequence[Mart]) -> list[str]:
    """The marts that are made of a contract's append or upsert table, at any distance."""
    own = {contract.table, *upsert_tables([contract])}
    reached = set(own)
    for _ in marts:
        reached |= {mart.table for mart in marts if reached & set(mart.upstream)}
    return sorted(reached - own)


def beneath(mart: Mart, marts: Mapping[str, Mart]) -> frozenset[str]:
    """All tables that a mart is made of, at any distance: marts too."""
    found = frozenset(mart.upstream)
    return found.union(*(beneath(marts[table], marts) for table in mart.upstream if table in marts))


def in_turns(chosen: Collection[Mart], apart: Collection[str], marts: Mapping[str, Mart]) -> list[list[Mart]]:
    """The chosen marts, each after those beneath it, so that no turn has both marts that are `apart` and others."""
    left = {mart.table: mart for mart in chosen}
    turns: list[list[Mart]] = []
    theirs = False
    while left:
        turn: list[Mart] = []
        while ready := [
            mart
            for mart in left.values()
            if (mart.table in apart) == theirs and not beneath(mart, marts) & left.keys()
        ]:
            turn += ready
            left = {table: mart for table, mart in left.items() if mart not in ready}
        turns += [turn] if turn else []
        theirs = not theirs
    return turns
