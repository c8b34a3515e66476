"""What the append rows lack for an upsert table: those that retention took, and records that were not made rows.

The latter come about while a contract has no `upsert`, or another `upsert.table`.
"""

from tidemark.domain.errors import Stopped
from tidemark.engine.merge.state import Pair


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
    if missing := tombstones_missing(pair) or truncates_missing(pair):
        return Stopped("misconfigured", table, missing)
    return None


def tombstones(pair: Pair) -> tuple[int, int] | None:
    """(epoch, how many) tombstones of this epoch are no rows of the append table, as a merge ledger notes it.

    None when all are; Debezium's follow a delete that is a row itself.
    """
    counted = _counted(pair)
    return (pair.append.ledger.epoch, sum(counted.values())) if pair.append and counted else None


def truncates(pair: Pair) -> tuple[int, dict[int, int]] | None:
    """(epoch, partition -> offset) of the last truncates of this epoch that are no rows, likewise."""
    if pair.append is None or not pair.append.ledger.truncates:
        return None
    return pair.append.ledger.epoch, dict(sorted(pair.append.ledger.truncates.items()))


def tombstones_missing(pair: Pair) -> str:
    """Why the table cannot be merged, and what makes it whole; empty when nothing is missing, or that was accepted."""
    found = tombstones(pair)
    known = pair.state.merged.no_tombstones if pair.state.merged else None
    if pair.append is None or found is None or (known and known[0] == found[0] and known[1] >= found[1]):
        return ""
    ledger = pair.append.ledger
    return (
        f"{found[1]} tombstones of {pair.current.append.table} were counted while the contract had no `upsert`, and "
        f"are no rows: the keys that they deleted would be there. "
        + _read_again(pair, {p: (ledger.start.get(p, 0), ledger.next[p]) for p in _counted(pair)})
    )


def truncates_missing(pair: Pair) -> str:
    """The same of truncates; the last one of a partition is enough."""
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
        + _read_again(pair, {p: (offset, offset + 1) for p, offset in found[1].items()})
    )


def _counted(pair: Pair) -> dict[int, int]:
    if pair.append is None or pair.current.append.value.envelope == "debezium":
        return {}
    return {p: c.tombstones for p, c in sorted(pair.append.ledger.totals.items()) if c.tombstones}


def _read_again(pair: Pair, ranges: dict[int, tuple[int, int]]) -> str:
    table = pair.current.append.table
    replays = "; ".join(
        f"tidemark replay {table} --partition {p} --from {start} --to {end} --reason …"
        for p, (start, end) in ranges.items()
    )
    return (
        f"Read again: {replays}. Where Kafka no longer has them: "
        f"tidemark accept {pair.current.contract.table} --first-load --reason …"
    )
