"""Processes that a test may kill, each forked from one that has done the imports: a fraction of a second, not four.

So all that a fork needs is imported up here, or by name before the first fork.

`start` is the engine's catch_up without Dagster, and prints what `tidemark run --json` prints; `command` is `tidemark`
itself with any words.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from tidemark.domain.maintenance import compaction
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.drill.drill import drill
from tidemark.engine.lane.catch_up import catch_up
from tidemark.engine.lane.upsert_work import UpsertWork
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.pause import pause, resume
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature

LATE = ("pyspark.sql.connect.session", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow")
"""What the engine imports by the configuration that it finds."""
SHELL = (
    *("orchestration.definitions", "tidemark.cli.in_dagster", "tidemark.cli.main", "tidemark.cli.run"),
    *("orchestration.local_storage", "dagster._core.storage.local_compute_log_manager", "upath.core"),
    *("dagster._core.storage.root", "dagster._core.executor.in_process", "assets.runs.lane"),
)
"""What `tidemark` imports to run something through Dagster."""

SUPPORT = Path(__file__).parent


class Forked:
    """A process that the server has forked, as far as tests need it to look like a Popen."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self._process = psutil.Process(pid) if psutil.pid_exists(pid) else None
        self._output = output

    @property
    def returncode(self) -> int | None:
        """Its exit code once it has ended by itself; a killed one leaves none."""
        code = self._output.with_suffix(".code")
        return int(code.read_text()) if code.exists() else None

    def poll(self) -> int | None:
        return None if self._process and self._process.is_running() else 0

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self._process:
            with suppress(psutil.NoSuchProcess):
                self._process.kill()

    def communicate(self, timeout: float = 60) -> tuple[str, None]:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("headless", timeout)
            time.sleep(0.02)
        return self.printed(), None

    def printed(self) -> str:
        """Its standard output so far."""
        return self._output.read_text(encoding="utf-8") if self._output.exists() else ""


def start(tables: Sequence[str], environ: Mapping[str, str], output: Path, log: Path) -> Forked:
    """Run tables, one after the other, in a process of their own; a word of JSON names another verb (`change`)."""
    return _fork({"tables": list(tables)}, environ, output, log)


def command(words: Sequence[str], environ: Mapping[str, str], output: Path, log: Path) -> Forked:
    """`tidemark <words>` in a process of its own."""
    return _fork({"words": list(words)}, environ, output, log)


def _fork(task: Mapping[str, list[str]], environ: Mapping[str, str], output: Path, log: Path) -> Forked:
    server = _server()
    order = {**task, "environ": dict(environ), "output": str(output), "log": str(log)}
    server.stdin.write(json.dumps(order) + "\n")
    server.stdin.flush()
    return Forked(int(server.stdout.readline()), output)


@cache
def _server() -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(SUPPORT.parent.parent), str(SUPPORT)])
    server = subprocess.Popen(
        [sys.executable, "-m", "headless"],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(server.communicate)
    return server


def serve() -> None:
    """Fork a process per line of input, until the input ends; answers with its pid."""
    for name in LATE:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        order = json.loads(line)
        if "words" in order:
            _import_shell()
        pid = os.fork()
        if pid == 0:
            _child(order)
        print(pid, flush=True)


@cache
def _import_shell() -> None:
    """The definitions themselves are each child's own."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ |= {"TIDEMARK_HOME": empty, "TIDEMARK_CONTRACTS": empty}
        for name in SHELL:
            import_module(name)
    del sys.modules["orchestration.definitions"], sys.modules["orchestration"].definitions
    gc.freeze()


def _child(order: dict[str, Any]) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(order["environ"])
        for stream, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, order["output"], os.O_WRONLY | os.O_CREAT),
            (2, order["log"], os.O_WRONLY | os.O_CREAT),
        ):
            os.dup2(os.open(path, flags, 0o644), stream)
        code = run(order["tables"]) if "tables" in order else _tidemark(order["words"])
    except BaseException:  # noqa: BLE001 - a fork must never return into the server
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        Path(order["output"]).with_suffix(".code").write_text(str(code))
        os._exit(code)


def _tidemark(words: Sequence[str]) -> int:
    from tidemark.cli.main import app  # noqa: PLC0415

    sys.argv = ["tidemark", *words]
    try:
        app(list(words))  # told the words, it leaves the process to us
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run(tables: Sequence[str]) -> int:
    """Run the tables one after the other; prints the outcomes."""
    configuration = load_from_environment()
    lake = Lake(configuration)
    run_id = f"headless-{uuid.uuid4().hex[:8]}"
    wanted = [contract for contract in configuration.contracts if contract.table in tables]
    if os.environ.get("HEADLESS") == "maintain":
        return _maintain(lake, wanted)
    verbs = [json.loads(word) for word in tables if word.startswith("{")]
    if verbs:
        print(json.dumps([change(lake, contract, run_id, **verbs[0]) for contract in wanted], default=str))
        return 0
    outcomes = [catch_up(lake, contract, run_id).as_json() for contract in wanted]
    merging = UpsertWork(lake, run_id, ())
    upserts = [each.contract for name, each in merging.tables.items() if name in tables]
    outcomes += [merging.catch_up(each).as_json() for each in upserts]
    print(json.dumps(outcomes))
    return int(any(outcome["error"] for outcome in outcomes))


def _maintain(lake: Any, contracts: Sequence[Any]) -> int:
    """All maintenance, eager: what is being written does not wait, a few manifests are many."""
    compaction.HOT_FACTOR, compaction.MANY_MANIFESTS = 1, 2
    print(json.dumps([gain.as_json() for contract in contracts for gain in maintain(lake, contract)]))
    return 0


def change(lake: Any, contract: Any, run_id: str, *, verb: str, **options: Any) -> dict[str, Any]:  # noqa: PLR0911
    """A verb that changes a table; `options` as the launchpad names them."""
    signature = Signature("ada", "a test", run_id)
    if verb in {"pause", "resume"}:
        return (pause if verb == "pause" else resume)(lake, contract, signature).as_json()
    if verb == "accept":
        return accept(lake, contract, options["what"], signature).as_json()
    if verb == "approve":
        return approve(lake, contract, options["plan"], signature).as_json()
    if verb == "backfill":
        times = {
            name: datetime.fromisoformat(options.pop(name)) for name in ("since", "until") if name in options
        }
        return backfill(lake, contract, Asked(**times, **options), signature).as_json()
    if verb == "drill":
        return drill(lake, options["scenarios"], "main", signature).as_json()
    if verb == "rollback":
        return rollback(lake, contract, Target(options["snapshot"]), signature).as_json()
    cause, partition = options.get("cause"), options.get("partition")
    selection = Selection(cause, partition, options.get("from_offset"), options.get("to_offset"))
    quarantine = options.get("quarantine", False)
    return replay(lake, contract, selection, signature, quarantine=quarantine).as_json()


if __name__ == "__main__":
    serve()
