"""Tidemark itself: a Spark server that starts, and `tidemark run` through Dagster."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.sidebyside.ground import PROPERTIES, Ground, Stream, Topic
from bench.sidebyside.meter import Cost, Failed, Meter
from bench.sidebyside.workload import KEY
from tidemark.services.java import find_java
from tidemark.services.processes import Mark, stop
from tidemark.services.stack import Stack

CLI = (sys.executable, "-m", "tidemark")


class Tidemark:
    """Start included: the server, and the process of the run."""

    name = "tidemark"
    kinds = frozenset({"avro", "json", "protobuf", "upsert"})
    writes = True

    def prepare(self, ground: Ground) -> None:
        """The class archive, which otherwise comes behind the first start, while others are measured."""
        command = [sys.executable, "-m", "tidemark.services.rehearsal", str(ground.home), str(find_java())]
        subprocess.run(
            command, check=True
        )  # here it would leave PySpark's mark on the environment of other peers

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """`services up` finds broker and registry running and starts Spark alone."""
        stream = Stream(topic.name, table, topic.workload)
        cost = self.drain(ground, [stream], topic.count)
        if _appended(stream) != table:
            ground.drop(_appended(stream))
        return cost

    def drain(self, ground: Ground, streams: Sequence[Stream], each: int) -> Cost:
        """One run of Dagster for all tables, and one for those that are written by key."""
        appended = [_appended(stream) for stream in streams]
        tables = dict.fromkeys([*appended, *(stream.table for stream in streams)])
        with declared(ground, streams, {}) as environ, Meter(ground.home / "tidemark.log") as meter:
            self.spark(ground, environ, meter)
            meter.run([*CLI, "run", *tables, "--json"], environ)
            if any(ground.rows(table) != each for table in appended):
                raise Failed(meter.tail())
            return meter.stop()

    def one_by_one(self, ground: Ground, streams: Sequence[Stream]) -> Cost:
        """A run of Dagster per table, Spark's start not counted: what `drain` saves."""
        with declared(ground, streams, {}) as environ:
            with Meter(ground.home / "tidemark.log") as unmeasured:
                self.spark(ground, environ, unmeasured)
            with Meter(ground.home / "tidemark.log") as meter:
                for stream in streams:
                    meter.run([*CLI, "run", stream.table, "--json"], environ)
                return meter.stop()

    @contextmanager
    def trickle(
        self, ground: Ground, streams: Sequence[Stream], seconds: int, meter: Meter
    ) -> Iterator[None]:
        """All of Dagster with its sensor, as `tidemark dev` starts it."""
        with declared(ground, streams, {"target_lag": f"{seconds}s"}) as environ:
            self.spark(ground, environ, meter)
            pid = meter.start([*CLI, "dev"], environ)
            try:
                yield
            finally:
                # Not SIGINT, which is ignored where a script runs this in the background.
                os.kill(pid, signal.SIGTERM)
                meter.wait(pid, 60)

    @staticmethod
    def spark(ground: Ground, environ: Mapping[str, str], meter: Meter) -> None:
        """Start the server alone: the other services of this home run."""
        meter.run([*CLI, "services", "up"], environ)
        meter.follow(Stack(ground.home).status()["processes"]["spark"])


@contextmanager
def declared(ground: Ground, streams: Sequence[Stream], more: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Contracts of these tables alone, and the end of Spark."""
    contracts = ground.home / "contracts"
    contracts.mkdir()
    try:
        for stream in streams:
            path = contracts / f"{stream.table}.yaml"
            path.write_text(json.dumps({**_contract(stream), **more}))
        yield {"TIDEMARK_HOME": str(ground.home), "TIDEMARK_CONTRACTS": str(contracts)}
    finally:
        shutil.rmtree(contracts)
        stop(Mark.of("spark", ground.home))


def _appended(stream: Stream) -> str:
    """The table of all records; by key there is one beside it."""
    return f"{stream.table}_log" if stream.workload.kind == "upsert" else stream.table


def _contract(stream: Stream) -> dict[str, object]:
    workload = stream.workload
    contract: dict[str, object] = {
        "topic": stream.topic,
        "table": _appended(stream),
        "table_properties": {key: text for key, text in PROPERTIES.items() if key != "format-version"},
    }
    if workload.kind == "upsert":
        return {**contract, "upsert": {"keys": [KEY], "table": stream.table}}
    contract["partition_by"] = ["day(ordered_at)"]
    if workload.value_format == "json":
        kinds = {"long": "bigint"}
        fields = {
            name: kinds.get(kind, kind) if isinstance(kind, str) else "timestamp"
            for name, kind in workload.fields.items()
        }
        contract["value"] = {"format": "json", "fields": fields}
    elif workload.value_format == "protobuf":
        contract["value"] = {"format": "protobuf", "schema": "by_latest_schema", "message": "Order"}
    return contract
