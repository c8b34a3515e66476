"""Which tables a command is about."""

from collections.abc import Sequence

from tidemark.domain.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.engine.configuration import Configuration


def chosen(configuration: Configuration, tables: Sequence[str]) -> list[Contract]:
    """The contracts of `tables`, all of them when none is named.

    Raises:
        Refused: there is no such table (with the nearest one), or no contract at all.
    """
    if not configuration.contracts:
        raise Refused(
            "there is no contract yet", next_step="write contracts/<topic>.yaml with one line: topic: <topic>"
        )
    if not tables:
        return list(configuration.contracts)
    return [configuration.contract(table) for table in dict.fromkeys(tables)]
