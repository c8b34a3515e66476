"""What can go wrong, brought about on a scratch table, and whether it is noticed and mended.

A scenario brings its fault about, says `noticed` when Tidemark names it, mends it, and says `mended` when the table
holds every record once again (`reconcile`). Services are never stopped: ours is told an address where nobody listens.
"""

import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.domain.config.catalog import Catalog
from tidemark.domain.errors import Outage
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.engine.access.lake import Lake
from tidemark.engine.drill.scratch import SCHEMA, SUBJECT, Scratch
from tidemark.engine.drill.victim import stand_still
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile

PATIENCE = 180.0
BATCH = 20
STRANGE = 3


class Missed(Exception):
    """The drill expected something that did not happen; the text says what."""


class NotHere(Exception):
    """The platform has not got what the scenario needs."""


@dataclass(slots=True)
class Drill:
    """One scenario at work: the scratch, who asked, and the clock since the fault."""

    scratch: Scratch
    signature: Signature
    began: float = field(default_factory=time.perf_counter)
    noticed_as: str = ""
    noticed_after: float | None = None
    mended_after: float | None = None

    def fault(self) -> None:
        """From here on the clock runs."""
        self.began = time.perf_counter()

    def noticed(self, what: str) -> None:
        """Tidemark has named the fault."""
        self.noticed_as, self.noticed_after = what, time.perf_counter() - self.began

    def mended(self) -> None:
        """Everything is there once, and nothing waits."""
        counts = self.sound()
        if not counts:
            raise Missed("the table does not hold every record once afterwards")
        if self.waiting():
            raise Missed("records still wait afterwards")
        self.mended_after = time.perf_counter() - self.began

    def run(self, lake: Lake | None = None) -> dict[str, int]:
        """Publish all that waits, as a run does; the rows by fate."""
        found = {"written": 0, "quarantined": 0}
        while commit := microbatch(lake or self.scratch.lake, self.scratch.contract, self.signature.run_id):
            for each in commit.counts.values():
                found["written"] += each.written
                found["quarantined"] += each.quarantined
        return found

    def sound(self) -> bool:
        """What `reconcile` says."""
        return reconcile(self.scratch.lake, self.scratch.contract).sound

    def waiting(self) -> int:
        """Offsets that are not published."""
        ledger = self.scratch.lake.state(self.scratch.contract.table).ledger
        end = self.scratch.lake.topic(self.scratch.contract).end
        return total(waiting(ledger.next if ledger else {}, end))

    def stops_as(self, lake: Lake, state: str) -> None:
        """A run on `lake` must end with this outage."""
        try:
            self.run(lake)
        except Outage as outage:
            if outage.state != state:
                raise Missed(f"it was called {outage.state}, not {state}") from outage
            self.noticed(outage.state)
            return
        raise Missed(f"the run went on as if nothing were, instead of {state}")


def kill(drill: Drill) -> None:
    """A run is killed between stage and publish."""
    scratch = drill.scratch
    scratch.send(BATCH)
    head = scratch.lake.state(scratch.contract.table).head
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder) / "paused"
        arguments = (scratch.configuration, str(marker), drill.signature.run_id)
        victim = multiprocessing.get_context("spawn").Process(target=stand_still, args=arguments)
        victim.start()
        until = time.monotonic() + PATIENCE
        while not marker.exists() and victim.is_alive() and time.monotonic() < until:
            time.sleep(0.05)
        reached = marker.exists()
        victim.kill()
        victim.join()
    drill.fault()
    if not reached:
        raise Missed("the run that was to be killed did not come to its stage")
    state = scratch.lake.state(scratch.contract.table)
    if state.head != head or not drill.waiting():
        raise Missed("a batch that was never published is in the table")
    drill.noticed("lagging")
    drill.run()
    drill.mended()


def catalog(drill: Drill) -> None:
    """The catalog refuses the connection."""
    drill.scratch.send(BATCH)
    lake = drill.scratch.refused(catalog=_nowhere(drill.scratch.platform.catalog))
    drill.fault()
    drill.stops_as(lake, "catalog_down")
    drill.run()
    drill.mended()


def registry(drill: Drill) -> None:
    """The schema registry refuses the connection."""
    scratch = drill.scratch
    if not scratch.registry:
        raise NotHere(f"platform.yaml has no schema_registry.{scratch.cluster}")
    scratch.send(BATCH)
    block = scratch.platform.schema_registry[scratch.cluster].model_copy(
        update={"url": f"http://127.0.0.1:{_closed_port()}"}
    )
    lake = scratch.refused(schema_registry={**scratch.platform.schema_registry, scratch.cluster: block})
    drill.fault()
    drill.stops_as(lake, "registry_down")
    drill.run()
    drill.mended()


def poison(drill: Drill) -> None:
    """A record that nobody can decode stands between good ones."""
    scratch = drill.scratch
    scratch.send(BATCH // 2)
    scratch.send_raw([(b"poison", b"\x07this is no record")])
    scratch.send(BATCH // 2)
    drill.fault()
    found = drill.run()
    if found != {"written": BATCH // 2 * 2, "quarantined": 1}:
        raise Missed(f"one record was to be quarantined, the others written: {found}")
    drill.noticed("quarantined")
    drill.mended()


def schema(drill: Drill) -> None:
    """Records come with a schema that the topic must not carry; later it is registered, and they are replayed."""
    scratch = drill.scratch
    if not scratch.registry:
        raise NotHere(f"platform.yaml has no schema_registry.{scratch.cluster}")
    newer = {**SCHEMA, "doc": "of another team"}
    elsewhere = scratch.register(SUBJECT.format(topic=f"{scratch.topic}_elsewhere"), newer)
    scratch.send(BATCH)
    scratch.send(STRANGE, elsewhere)
    drill.fault()
    found = drill.run()
    if found["quarantined"] != STRANGE:
        raise Missed(f"{STRANGE} records were to be quarantined: {found}")
    drill.noticed("schema_not_allowed")
    scratch.register(SUBJECT.format(topic=scratch.topic), newer)
    moved = replay_quarantine(
        scratch.lake, scratch.contract, Selection("schema_not_allowed"), drill.signature
    ).arguments["moved"]
    if moved != STRANGE:
        raise Missed(f"{STRANGE} records were to be replayed, {moved} were")
    drill.mended()


def replay(drill: Drill) -> None:
    """Rows vanish from the table; their offsets are read again."""
    scratch, table = drill.scratch, drill.scratch.lake.identifier(drill.scratch.contract.table)
    scratch.send(BATCH)
    drill.run()
    following = scratch.lake.state(scratch.contract.table).ledger
    partition, end = max(following.next.items(), key=lambda each: each[1]) if following else (0, 0)
    scratch.lake.spark().sql(
        f"DELETE FROM {table} WHERE _kafka.partition = {partition} AND _kafka.offset < {end}"
    )
    drill.fault()
    if drill.sound():
        raise Missed("reconcile does not miss rows that were deleted")
    drill.noticed("gaps")
    replay_range(scratch.lake, scratch.contract, partition, 0, end, drill.signature)
    drill.mended()


def undo(drill: Drill) -> None:
    """What a wrong deployment has published is taken back, offsets and all, and read again."""
    scratch = drill.scratch
    scratch.send(BATCH)
    drill.run()
    target = scratch.lake.state(scratch.contract.table).head
    scratch.send(BATCH)
    drill.run()
    drill.fault()
    rollback(scratch.lake, scratch.contract, Target(target), drill.signature)
    if not scratch.lake.state(scratch.contract.table).paused or drill.run()["written"]:
        raise Missed("a table that was rolled back goes on by itself")
    drill.noticed("paused")
    resume(scratch.lake, scratch.contract, drill.signature)
    if drill.run()["written"] != BATCH:
        raise Missed("what was rolled back was not read again")
    drill.mended()


SCENARIOS: Mapping[str, Callable[[Drill], None]] = {
    "kill": kill,
    "catalog": catalog,
    "registry": registry,
    "poison": poison,
    "schema": schema,
    "replay": replay,
    "rollback": undo,
}


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _nowhere(block: Catalog) -> Catalog:
    """The same catalog at an address where nobody listens."""
    port, uri = _closed_port(), block.uri or ""
    place = {"rest": f"http://127.0.0.1:{port}", "hive": f"thrift://127.0.0.1:{port}", "glue": None}
    if block.type == "sql":
        nowhere = (
            f"postgresql+psycopg2://nobody@127.0.0.1:{port}/none"
            if uri.startswith("postgres")
            else "sqlite:////nowhere/at/all.db"
        )
        return block.model_copy(update={"uri": nowhere})
    if block.type == "glue":
        properties = {
            **block.model_dump(by_alias=True, exclude_none=True),
            "glue.endpoint": f"http://127.0.0.1:{port}",
        }
        return Catalog.model_validate(properties)
    return block.model_copy(update={"uri": place[block.type]})
