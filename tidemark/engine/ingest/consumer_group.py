"""The consumer group that lag tools look at: told after each publish, read by nobody here."""

import logging

from tidemark.domain.config.contract import Contract, group_of
from tidemark.domain.ledger.offsets import Offsets
from tidemark.engine.access.lake import Lake

_log = logging.getLogger("tidemark.group")


def tell_group(lake: Lake, contract: Contract, following: Offsets) -> None:
    """Commit `following` for the contract's group, when it names one. Never raises: the batch is published."""
    named = contract.ingest.commit_to_group
    if named is None:
        return
    group = group_of(named, contract.table)
    try:
        lake.kafka(contract.cluster).commit_group(group, contract.topic, following)
    except Exception as error:  # noqa: BLE001 - whatever it is: lag tools wait for the next batch
        _log.warning("%s is published; consumer group %s was not told: %s", contract.table, group, error)
