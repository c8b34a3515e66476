"""Which tables a command is about."""

from collections.abc import Sequence

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_tables
from tidemark.domain.errors import Refused


def chosen(configuration: Configuration, tables: Sequence[str]) -> list[Contract]:
    """The contracts of `tables`, all of them when none is named.

    Raises:
        Refused: there is no such table (with the nearest one), or no contract at all.
    """
    if why := without_contracts(configuration):
        raise why
    if not tables:
        return list(configuration.contracts)
    return [configuration.contract(table) for table in dict.fromkeys(tables)]


def without_contracts(configuration: Configuration) -> Refused | None:
    """Why there is no table to choose from."""
    if configuration.contracts:
        return None
    if configuration.patterns:
        wanted = ", ".join(f"{each.topics} ({each.file})" for each in configuration.patterns)
        return Refused(f"no topic is called like {wanted}", next_step="create one, or mend `topics`")
    return Refused(
        "there is no contract yet", next_step="write contracts/<topic>.yaml with one line: topic: <topic>"
    )


def chosen_both(
    configuration: Configuration, tables: Sequence[str]
) -> tuple[list[Contract], dict[str, UpsertTable]]:
    """Append tables, and upsert tables by name: those that are named, and those of append tables that are.

    Raises:
        Refused: as `chosen`.
    """
    known = upsert_tables(configuration.contracts)
    named = {table: known[table] for table in tables if table in known}
    others = [table for table in tables if table not in named]
    contracts = chosen(configuration, others) if others or not tables else []
    return contracts, {**upsert_tables(contracts), **named}
