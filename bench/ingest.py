"""What ingestion costs: fixed cost per microbatch, and time and CPU per record of a backlog.

    tidemark services up
    python bench/ingest.py microbatch              # medians of 20 one-record batches, by stage
    python bench/ingest.py drain --records 1000000 # beside the same read without Tidemark, in one run
    python bench/ingest.py rules --records 1000000 # the same backlog into tables with 0, 1 and 5 row rules
    python bench/ingest.py formats --records 200000 # a backlog of each format, topic to published table

Figures depend on the machine: quote the ratios. CPU is that of the Spark server and of this process.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from cpu import cpu_of
from format_topics import Case, cases, fill
from records import create, produce

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import FATE
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.lane.catch_up import catch_up
from tidemark.engine.schema.writers import read_schemas
from tidemark.services.stack import Stack


def microbatch(lake: Lake, stack: dict[str, Any], _: int) -> None:
    """One record, one commit, 20 times: what a commit costs however small it is."""
    topic = f"bench_{uuid4().hex[:8]}"
    contract = Contract(topic=topic, table=f"bench.{topic}", partition_by=("day(ordered_at)",))
    schema_id = create(stack, topic, 3)
    outcomes, ticks = [], []
    for number in range(24):
        produce(stack, topic, schema_id, number, 1, 3)
        outcomes.append(catch_up(lake, contract, "bench"))
        began = time.perf_counter()
        catch_up(lake, contract, "bench")
        ticks.append(time.perf_counter() - began)
    warm = outcomes[4:]
    for stage in warm[0].stages:
        print(f"{stage:>12} {statistics.median(o.stages[stage] for o in warm) * 1000:7.0f} ms")
    whole = statistics.median(sum(o.stages.values()) for o in warm) * 1000
    print(f"{'together':>12} {whole:7.0f} ms;  with nothing to do {statistics.median(ticks) * 1000:.0f} ms")


def drain(lake: Lake, stack: dict[str, Any], records: int) -> None:
    """A backlog, beside reading it only, and beside reading and decoding it only."""
    topic = f"bench_{uuid4().hex[:8]}"
    schema_id = create(stack, topic, 4)
    produce(stack, topic, schema_id, 0, records, 4)
    contract = Contract(topic=topic, table=f"bench.{topic}", partition_by=("day(ordered_at)",))
    first = Contract(topic=topic, table=f"bench.{topic}_warm", partition_by=("day(ordered_at)",))
    catch_up(lake, first, "bench")
    plan = _plan(lake, first)
    jobs: dict[str, Callable[[], Any]] = {
        "read": lambda: _to_nothing(read_ranges(lake, first, plan.ranges)),
        "decode": lambda: _to_nothing(
            decode(read_ranges(lake, first, plan.ranges), plan.decoding()).where(f"{FATE} = 'written'")
        ),
        "tidemark": lambda: _loaded(lake, contract),
    }
    lake.catalog.drop_table(first.table)  # a second table of a topic would wait for a review
    base = 0.0
    print(f"{'':>10} {'records/s':>10} {'CPU µs/record':>14} {'to read':>8}  server MiB")
    for name, job in jobs.items():
        cpu, seconds = _measured(stack, job)
        base = base or cpu
        memory = psutil.Process(stack["processes"]["spark"]).memory_info().rss >> 20
        print(
            f"{name:>10} {records / seconds:>10,.0f} {cpu / records * 1e6:>14.2f} {cpu / base:>8.2f}  {memory}"
        )


RULES = (
    {"column": "amount", "check": "in_range", "min": 0},
    {"column": "order_id", "check": "not_null"},
    {"column": "status", "check": "in_set", "values": ["NEW", "PAID", "SENT", "RETURNED"]},
    {"column": "status", "check": "matches", "pattern": "[A-Z]+"},
    {"sql": "amount >= 0 or status = 'RETURNED'"},
)


def rules(lake: Lake, stack: dict[str, Any], records: int) -> None:
    """What quality rules cost that every record keeps: the first table is a warm-up."""
    topic = f"bench_{uuid4().hex[:8]}"
    produce(stack, topic, create(stack, topic, 4), 0, records, 4)
    chosen = {"warm-up": RULES, "none": (), "one": RULES[:1], "five": RULES, "sql alone": RULES[4:]}
    chosen["one that blocks"] = ({**RULES[0], "on_failure": "block"},)
    base = 0.0
    print(f"{'rules':>16} {'records/s':>10} {'CPU µs/record':>14} {'more':>8}")
    for place, (name, listed) in enumerate(chosen.items()):
        contract = Contract(topic=topic, table=f"bench.{topic}_{place}", quality=listed)
        cpu, seconds = _measured(stack, lambda: _loaded(lake, contract))  # noqa: B023 - called at once
        lake.catalog.drop_table(contract.table)
        each = cpu / records * 1e6
        base = each if name == "none" else base
        print(f"{name:>16} {records / seconds:>10,.0f} {each:>14.2f} {each - base:>8.2f}")


def formats(lake: Lake, stack: dict[str, Any], records: int) -> None:
    """The same orders in every format; all of them go before once, so that each finds the server as warm."""
    for name, case in cases().items():
        _loaded_from(lake, stack, case, records)
        print(f"{name} is warm", file=sys.stderr)
    print(
        f"{'format':>16} {'bytes':>6} {'records/s':>10} {'CPU µs/record':>14}   load {os.getloadavg()[0]:.1f}"
    )
    for name, case in cases().items():
        size, cpu, seconds = _loaded_from(lake, stack, case, records)
        print(
            f"{name:>16} {size:>6} {records / seconds:>10,.0f} {cpu / records * 1e6:>14.2f}   load "
            f"{os.getloadavg()[0]:.1f}",
            flush=True,
        )


def _loaded_from(lake: Lake, stack: dict[str, Any], case: Case, records: int) -> tuple[int, float, float]:
    """Bytes of a record, CPU seconds and seconds of a topic of its own into a table of its own."""
    topic = f"bench_{uuid4().hex[:8]}"
    size = fill(stack, topic, case, records)
    contract = Contract.model_validate({"topic": topic, "table": f"bench.{topic}", "value": case.value})
    return (size, *_measured(stack, lambda: _loaded(lake, contract)))


def _loaded(lake: Lake, contract: Contract) -> None:
    outcome = catch_up(lake, contract, "bench")
    if outcome.error:
        raise SystemExit(outcome.error)


def _plan(lake: Lake, contract: Contract) -> Plan:
    state, topic = lake.state(contract.table), lake.topic(contract)
    if state.ledger is None:
        raise SystemExit(f"{contract.table} was not loaded")
    ranges = {p: OffsetRange(topic.log_start[p], end) for p, end in topic.end.items()}
    schemas = read_schemas(lake, contract, state)
    return Plan(contract, topic, state, state.ledger, schemas, ranges, "bench", "bench", "bench")


def _to_nothing(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _measured(stack: dict[str, Any], job: Callable[[], Any]) -> tuple[float, float]:
    began, before = time.perf_counter(), cpu_of(stack)
    job()
    return cpu_of(stack) - before, time.perf_counter() - began


MODES = {"microbatch": microbatch, "drain": drain, "rules": rules, "formats": formats}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(MODES))
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    stack = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    lake = Lake(load_from_environment())
    MODES[arguments.what](lake, stack, arguments.records)
    lake.close()


if __name__ == "__main__":
    main()
