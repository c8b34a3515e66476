"""What the append rows lack for an upsert table: those that retention took, and records that were not made rows.

The latter come about while a contract has no `upsert`, or another `upsert.table`; so do rows that are no records.
"""

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Ledger
from tidemark.engine.merge.pair import Pair


def lacking(pair: Pair) -> Stopped | None:
    """The stop state, with what makes the table whole; None when nothing is missing, or that was accepted."""
    table = pair.current.contract.table
    if pair.trimmed and pair.state.merged is None:
        return Stopped(
            "ledger_missing",
            table,
            f"Nothing was ever merged, and retention has deleted rows of {pair.current.append.table}: keys silent "
            "for longer would be missing. Once accepted it is made of the rows that are left.",
        )
    if why := _taken_missing(pair):
        return Stopped("ledger_missing", table, why)
    for missing in (_unmade_missing, _tombstones_missing, _truncates_missing, _elsewhere_missing):
        if why := missing(pair):
            return Stopped("misconfigured", table, why)
    return None


def _taken_missing(pair: Pair) -> str:
    """Why the table lacks rows that retention took: it was taken back since, or has never merged them."""
    merged = pair.state.merged
    if merged is None or merged.anew or pair.taken is None or not (lost := pair.taken.beyond(merged)):
        return ""
    places = ", ".join(f"{offset} of partition {p}" for p, offset in lost.items())
    return (
        f"It was taken back to before rows of {pair.current.append.table} that retention has deleted since they were "
        f"merged, or they went while the contract had no `upsert` (below offset {places}): keys of theirs would be "
        "missing. Take it forward again to a snapshot that has them; where there is none: once accepted it is made of "
        "the rows that are there."
    )


def unmade(contract: Contract, ledger: Ledger) -> int:
    """Tombstones and truncates of this epoch and earlier ones that are no rows, for the ledger of the next epoch."""
    return ledger.unmade + sum(_counted(contract, ledger).values()) + len(ledger.truncates)


def tombstones(pair: Pair) -> tuple[int, int] | None:
    """(epoch, how many) tombstones up to this epoch are no rows of the append table, as a merge ledger notes it.

    None when all are; Debezium's follow a delete that is a row itself.
    """
    if pair.append is None:
        return None
    ledger = pair.append.ledger
    found = ledger.unmade + sum(_counted(pair.current.append, ledger).values())
    return (ledger.epoch, found) if found else None


def truncates(pair: Pair) -> tuple[int, dict[int, int]] | None:
    """(epoch, partition -> offset) of the last truncates of this epoch that are no rows, likewise."""
    if pair.append is None or not pair.append.ledger.truncates:
        return None
    return pair.append.ledger.epoch, dict(sorted(pair.append.ledger.truncates.items()))


def still_accepted(pair: Pair) -> tuple[tuple[int, int] | None, tuple[int, dict[int, int]] | None]:
    """What a merge ledger notes on: of what was accepted to be missing, as much as is missing still.

    Tombstones that were made rows since must not cover others that are only counted later.
    """
    merged = pair.state.merged
    known, skipped = (merged.no_tombstones, merged.no_truncates) if merged else (None, None)
    found, left = tombstones(pair), truncates(pair)
    if known and (found is None or found[0] == known[0]):
        known = found and (known[0], min(known[1], found[1]))
    if skipped and (left is None or left[0] == skipped[0]):
        skipped = left and (skipped[0], {p: o for p, o in skipped[1].items() if p in left[1]})
    return known, skipped


def _unmade_missing(pair: Pair) -> str:
    """Why the table cannot be merged, and what lets it be; empty when nothing is missing, or that was accepted."""
    merged = pair.state.merged
    accepted = merged.no_tombstones[1] if merged and merged.no_tombstones else 0
    accepted += len(merged.no_truncates[1]) if merged and merged.no_truncates else 0
    if pair.append is None or pair.append.ledger.unmade <= accepted:
        return ""
    return (
        f"{pair.append.ledger.unmade} tombstones or truncates of earlier epochs of {pair.current.append.table} were "
        "counted while the contract had no `upsert`, and are no rows: the keys that they deleted would be there. Their "
        f"topic is gone, so they cannot be read again. {read_again(pair, {})}"
    )


def _tombstones_missing(pair: Pair) -> str:
    """As `_unmade_missing`, of tombstones of this epoch, which can be read again."""
    counted = _counted(pair.current.append, pair.append.ledger) if pair.append else {}
    found = tombstones(pair) if counted else None
    known = pair.state.merged.no_tombstones if pair.state.merged else None
    if pair.append is None or found is None or (known and known[0] == found[0] and known[1] >= found[1]):
        return ""
    ledger = pair.append.ledger
    return (
        f"{sum(counted.values())} tombstones of {pair.current.append.table} were counted while the contract had no "
        f"`upsert`, and are no rows: the keys that they deleted would be there. "
        + read_again(pair, {p: (ledger.start.get(p, 0), ledger.next[p]) for p in counted})
    )


def _truncates_missing(pair: Pair) -> str:
    """As `_unmade_missing`, of truncates, which can be read again; the last one of a partition is enough."""
    found = truncates(pair)
    known = pair.state.merged.no_truncates if pair.state.merged else None
    if found is None or (
        known and known[0] == found[0] and all(known[1].get(p, -1) >= o for p, o in found[1].items())
    ):
        return ""
    places = ", ".join(f"{offset} of partition {p}" for p, offset in found[1].items())
    return (
        f"The source of {pair.current.append.table} was emptied (truncate event at offset {places}) while the contract "
        "had no `upsert`: the event was skipped and is no row, so rows from before it would be there. "
        + read_again(pair, {p: (offset, offset + 1) for p, offset in found[1].items()})
    )


def _elsewhere_missing(pair: Pair) -> str:
    """As `_unmade_missing`, of a backfill's rows that are no records of the topic: none tells a key's newest."""
    if not pair.elsewhere:
        return ""
    return (
        f"{pair.current.append.table} holds rows of a backfill from elsewhere, and an upsert table knows records of "
        "its own topic only: keys that no record has told would be missing. Without the backfill: tidemark rollback "
        f"{pair.current.append.table} --snapshot …; made of the topic's records all the same: {_accept(pair)}"
    )


def _counted(contract: Contract, ledger: Ledger) -> dict[int, int]:
    if contract.value.envelope == "debezium":
        return {}
    return {p: c.tombstones for p, c in sorted(ledger.totals.items()) if c.tombstones}


def read_again(pair: Pair, ranges: dict[int, tuple[int, int]]) -> str:
    """What reads records again (partition -> offsets of the first and behind the last), or lets them be missing."""
    if not ranges:
        return f"Made of the rows all the same: {_accept(pair)}"
    table = pair.current.append.table
    replays = "; ".join(
        f"tidemark replay {table} --partition {p} --from {start} --to {end} --reason …"
        for p, (start, end) in ranges.items()
    )
    return f"Read again: {replays}. Where Kafka no longer has them: {_accept(pair)}"


def _accept(pair: Pair) -> str:
    return f"tidemark accept {pair.current.contract.table} --first-load --reason …"
