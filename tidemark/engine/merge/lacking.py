"""What the append rows lack for an upsert table: those that retention took, and tombstones that are no rows.

Both come about while a contract has no `upsert`, or another `upsert.table`.
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
    if missing := tombstones_missing(pair):
        return Stopped("misconfigured", table, missing)
    return None


def counted(pair: Pair) -> dict[int, int]:
    """Kafka partition -> tombstones of this epoch that are no rows of the append table.

    Debezium's follow a delete that is a row itself.
    """
    if pair.append is None or pair.current.append.value.envelope == "debezium":
        return {}
    return {p: c.tombstones for p, c in sorted(pair.append.ledger.totals.items()) if c.tombstones}


def accepted(pair: Pair) -> tuple[int, int] | None:
    """What a merge ledger notes once someone accepts that they are missing."""
    return (pair.append.ledger.epoch, sum(counted(pair).values())) if pair.append and counted(pair) else None


def tombstones_missing(pair: Pair) -> str:
    """Why the table cannot be merged, and what makes it whole; empty when nothing is missing, or that was accepted."""
    found = accepted(pair)
    known = pair.state.merged.no_tombstones if pair.state.merged else None
    if pair.append is None or found is None or (known and known[0] == found[0] and known[1] >= found[1]):
        return ""
    table, ledger = pair.current.append.table, pair.append.ledger
    replays = "; ".join(
        f"tidemark replay {table} --partition {p} --from {ledger.start.get(p, 0)} --to {ledger.next[p]} --reason …"
        for p in counted(pair)
    )
    return (
        f"{found[1]} tombstones of {table} were counted while the contract had no `upsert`, and are no rows: the keys "
        f"that they deleted would be there. Read them again: {replays}. Where Kafka no longer has them: "
        f"tidemark accept {pair.current.contract.table} --first-load --reason …"
    )
