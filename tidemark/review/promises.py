"""The operational contract of a table in words that its users can hold us to. Pure: from the contract alone."""

from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.platform import Platform
from tidemark.domain.config.units import format_duration, format_size
from tidemark.domain.ledger.evidence import FLOOD_FLOOR
from tidemark.domain.maintenance.snapshot_keep import LEDGER_ROOM

_CHANGES = {
    "add_column": "a new column",
    "widen_type": "a wider type",
    "remove_column": "a column that writers drop",
    "incompatible": "an incompatible change",
}
_HOW = {
    "apply": "applied by itself",
    "review": "waits until an approver lets it through; records that need it wait in Kafka",
    "quarantine": "its records go to the quarantine",
}
_INCOMPATIBLE = (
    "its records wait in Kafka until an approver sends all of that writer to the quarantine; a schema without exact "
    "columns nobody can approve"
)


def promises(contract: Contract, platform: Platform) -> list[tuple[str, str]]:
    """(what, how) in the order in which a reviewer asks."""
    return [
        ("Freshness", _freshness(contract)),
        ("Completeness", "Each committed offset is in exactly one of: table, quarantine, tombstones, skips."),
        ("Schema changes", _schema(contract)),
        ("Deletes", _deletes(contract)),
        ("Bad records", _bad(contract)),
        ("Quality", _quality(contract)),
        ("Kept for", _kept(contract)),
        ("Maintenance", _maintenance(contract, platform)),
        ("Recovery", _recovery(contract)),
    ]


def _freshness(contract: Contract) -> str:
    limits, said = contract.freshness, [f"published about every {format_duration(contract.target_lag)}"]
    if limits.warn:
        said.append(f"a warning when more than {format_duration(limits.warn)} behind")
    if limits.fail:
        said.append(f"a failed check beyond {format_duration(limits.fail)}")
    said.append(
        f"an alarm when nothing came for {format_duration(limits.silence)}"
        if limits.silence
        else "a quiet topic is no alarm"
    )
    return "; ".join(said) + "."


def _schema(contract: Contract) -> str:
    if contract.value.format not in REGISTRY_FORMATS:
        return "The columns are declared by the contract; they change with it."
    policy = contract.schema_changes
    how = {key: _HOW[getattr(policy, key)] for key in _CHANGES}
    if policy.incompatible == "review":
        how["incompatible"] = _INCOMPATIBLE
    said = [f"{words}: {how[key]}" for key, words in _CHANGES.items()]
    return "; ".join(said) + ". A column is never dropped from the table."


def _deletes(contract: Contract) -> str:
    if contract.upsert is None:
        return "The table holds every record as it came; tombstones are counted and leave no row."
    how = "removes the row" if contract.upsert.deletes == "hard" else "marks the row as deleted"
    return (
        "The append table keeps every record, a tombstone as a row without values; a delete "
        f"{how} in {contract.upsert.table}."
    )


def _bad(contract: Contract) -> str:
    shares = contract.quarantine
    return (
        f"They go to {contract.quarantine_table} with their bytes and cause; from {shares.warn:.2%} of a batch on "
        f"there is a warning, above {shares.fail:.2%} and from {FLOOD_FLOOR} records on nothing "
        "of the batch is published."
    )


def _quality(contract: Contract) -> str:
    if not contract.quality:
        return "No rule beside the types of the columns."
    return ". ".join(f"{rule.title}: {rule.promise}" for rule in contract.quality) + "."


def _kept(contract: Contract) -> str:
    snapshots = contract.maintenance.snapshots
    rows = f"Rows for {format_duration(contract.retention.append)}" if contract.retention else "Rows for ever"
    most = str(snapshots.max_count)
    if "max_count" not in snapshots.model_fields_set:
        most += f" and {format_size(LEDGER_ROOM)} of their ledgers"
    return (
        f"{rows}; snapshots for {format_duration(snapshots.max_age)}, at least the newest {snapshots.min_keep}, "
        f"at most {most}."
    )


def _maintenance(contract: Contract, platform: Platform) -> str:
    owner = f"{contract.owners.data} owns it." if contract.owners.data else "Nobody is named who owns it."
    when = platform.maintenance
    return (
        f"{owner} Compaction ({when.compaction}), snapshot expiry ({when.snapshots}) and orphan files "
        f"({when.orphans}) are scheduled, and act where it pays."
    )


def _recovery(contract: Contract) -> str:
    return (
        "Offsets lie in the table: the next run goes on from its newest receipt. Back to an earlier state: "
        f"tidemark rollback {contract.table}. Records again: tidemark replay {contract.table}."
    )
