"""Whose a table is that has one of a contract's names: ingest refuses what is another's, and so does maintenance."""

from pyiceberg.table import Table

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import another_cluster, another_topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.ledger.merge_ledger import is_merge_ledger
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import newest_receipt
from tidemark.engine.access.snapshots import ledger_of, summary_of
from tidemark.engine.access.table_state import OWNED, UPSERT_OF, ledger_missing, load
from tidemark.engine.table.first_load import CLUSTER

_ELSES = "somebody else's table has this name"


def not_ours(lake: Lake, contract: Contract, name: str, *, to_the_row: bool = False) -> str | None:
    """Why maintenance leaves a table of this name alone; None when it is the contract's, or is not there.

    `to_the_row`: rows are to go. Then the cluster is asked who it is, for two may have one name, and a ledger must be
    there.

    Raises:
        Stopped: `ledger_missing`.
        Outage: a service does not answer.
    """
    append = load(lake.catalog, contract.table)
    if append is not None and (why := _of_another(lake, contract, append, to_the_row=to_the_row)):
        return why
    table = None if name == contract.table else load(lake.catalog, name)
    if table is None:
        return None
    if name == contract.quarantine_table:
        return None if OWNED in table.properties else _ELSES
    return None if table.properties.get(UPSERT_OF) == contract.table else _ELSES


def _of_another(lake: Lake, contract: Contract, append: Table, *, to_the_row: bool) -> str | None:
    """A name of a cluster is the platform file's and may have changed there: only its id tells."""
    receipt = newest_receipt(append.metadata)
    if receipt is None:
        loaded_from = append.properties.get(OWNED)
        if loaded_from != contract.topic:
            return f"it was loaded from {loaded_from} and its ledger is gone" if loaded_from else _ELSES
        if to_the_row and append.metadata.current_snapshot_id is not None:
            raise ledger_missing(append.metadata, contract.table, lake.catalog.name)
        return None
    if is_merge_ledger(summary_of(receipt)[LEDGER_PROPERTY]):
        return _ELSES
    ledger = ledger_of(receipt, contract.table)
    finding = another_topic(ledger, contract.topic)
    if finding is None and (
        to_the_row or append.properties.get(CLUSTER, contract.cluster) != contract.cluster
    ):
        finding = another_cluster(ledger, lake.kafka(contract.cluster).cluster_id())
    return finding.detail if finding else None
