"""What many merges leave to readers: a point read and a full scan after 50 merges, maintained, beside a fresh rewrite.

    tidemark services up
    python bench/upsert_reads.py --rows 1000000 --merges 50 --changed 2000

Compaction runs every ten merges, by the thresholds of a contract that says nothing of them. Bytes: what the merges
wrote beside what the changed rows take in a freshly rewritten table. Figures depend on the machine: quote the ratios.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from upsert import TIMES_CHANGED, VALUES, append, beside, contract_of

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties

EVERY = 10
READS = 15
READ = 2.0
"""Goal: a read over that of a freshly rewritten table."""


def measure(lake: Lake, version: int, rows: int, merges: int, changed: int) -> None:
    contract = contract_of(version)
    current = upsert_table_of(contract)
    table = current.contract.table
    create(lake, contract, VALUES, {**base_properties(contract), "tidemark.topic": contract.topic})
    append(lake, contract, "n", 0, rows)
    merged(lake, current)
    offset, written, seconds = rows, 0, []
    for number in range(1, merges + 1):
        append(lake, contract, f"(n * 7919 + {number * 31}) % {rows}", offset, changed)
        offset += changed
        outcome = merged(lake, current)
        written += outcome.bytes
        seconds.append(outcome.seconds)
        if number % EVERY == 0:
            for gain in maintain(lake, contract, {"compaction"}):
                if gain.table == table:
                    print(f"  after {number} merges: compaction {gain.reason}")
    left = files(lake, table)
    point, scan = (median(lake, sql) for sql in questions(lake, table, rows))
    lake.spark().sql(
        f"CALL {lake.platform.catalog.name}.system.rewrite_data_files(table => '{table}', options => map("
        "'rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    ).collect()
    fresh = files(lake, table)
    fresh_point, fresh_scan = (median(lake, sql) for sql in questions(lake, table, rows))
    share = changed * merges * fresh["bytes"] / rows
    print(
        f"format {version}, {rows:,} rows, {merges} merges of {changed:,} keys, {statistics.median(seconds):.2f} s each"
    )
    print(f"  bytes written / changed rows: {_ratio(written / 1e6, share / 1e6, 'MB', TIMES_CHANGED)}")
    print(f"  point read / freshly rewritten: {_ratio(point * 1e3, fresh_point * 1e3, 'ms', READ)}")
    print(f"  full scan / freshly rewritten: {_ratio(scan * 1e3, fresh_scan * 1e3, 'ms', READ)}")
    print(f"  files {left}, freshly rewritten {fresh}")


def _ratio(one: float, other: float, unit: str, goal: float) -> str:
    return f"{one:.1f} {unit} / {other:.1f} {unit} = {beside(one / other, goal)}"


def merged(lake: Lake, current: Any) -> Any:
    outcome = catch_up_merges(lake, current, "bench")
    if outcome.error:
        raise SystemExit(outcome.error["message"])
    return outcome


def questions(lake: Lake, table: str, rows: int) -> tuple[Callable[[int], str], Callable[[int], str]]:
    name = lake.identifier(table)
    return (
        lambda n: f"SELECT * FROM {name} WHERE id = {n * 7919 % rows}",
        lambda n: f"SELECT sum(amount), max(note) FROM {name} WHERE amount <> {n}",
    )


def median(lake: Lake, question: Callable[[int], str]) -> float:
    """Seconds; the first answers are for warming up."""
    times = []
    for number in range(READS + 3):
        began = time.perf_counter()
        lake.spark().sql(question(number)).collect()
        times.append(time.perf_counter() - began)
    return statistics.median(times[3:])


def files(lake: Lake, table: str) -> dict[str, int]:
    summary = lake.catalog.load_table(table).metadata.current_snapshot().summary.additional_properties
    return {
        "data": int(summary.get("total-data-files", 0)),
        "deletes": int(summary.get("total-delete-files", 0)),
        "bytes": int(summary.get("total-files-size", 0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--merges", type=int, default=50)
    parser.add_argument("--changed", type=int, default=2_000)
    parser.add_argument("--formats", type=int, nargs="+", default=[2, 3])
    arguments = parser.parse_args()
    lake = Lake(load_from_environment())
    for version in arguments.formats:
        measure(lake, version, arguments.rows, arguments.merges, arguments.changed)
    lake.close()


if __name__ == "__main__":
    main()
