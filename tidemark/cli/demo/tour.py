"""The guided tour: each step does something real, prints the command that repeats it, and checks what came of it."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.text import Text

from tidemark.cli.demo.board import Board
from tidemark.cli.demo.stage import Stage
from tidemark.cli.demo.traffic import Traffic
from tidemark.domain.ledger.ledger import BRANCH_PREFIX, LEDGER_TAG
from tidemark.engine.access.table_state import load

TOPIC, TABLE = "orders", "shop.orders"
PATIENCE = 120.0
BURST = 40_000
"""Orders that keep a run busy long enough to be killed in the middle."""

SHOWN = 20
"""Lines of a command's output."""
NO_ANSWER = 124
"""Exit code of a command that took too long."""


@dataclass(frozen=True, slots=True)
class Tour:
    """The steps over what is up. Each gives whether all went right."""

    stage: Stage
    traffic: Traffic
    board: Board
    console: Console

    def first_rows(self) -> bool:
        """Wait until every sample topic has new rows that can be read."""
        began = time.monotonic()
        self.board.refresh()
        before = {table: each.rows or 0 for table, each in self.board.seen.items()}
        self.console.print("Waiting for the first rows: the sensor notices lag, a run of Dagster ingests it.")
        complete = self.until(
            lambda: all((each.rows or 0) > before[table] for table, each in self.board.seen.items())
        )
        self.console.print(self.board.render(self.traffic.produced, Text()))
        return self.verdict(complete, f"first rows of all topics after {time.monotonic() - began:.0f} s")

    def rows_by_sql(self) -> bool:
        """Plain SQL over Spark Connect beside what the producer had acknowledged."""
        self.title("1  The rows by plain SQL beside the producer's count")
        before = self.traffic.produced[TOPIC]
        self.until(lambda: self._readable() >= before)
        catalog = self.stage.configuration.platform.catalog.name
        sql = f"SELECT count(*) AS n FROM {catalog}.{TABLE}"
        remote = self.stage.configuration.platform.spark.address
        program = (
            "from pyspark.sql import SparkSession as S; "
            f'print(S.builder.remote("{remote}").getOrCreate().sql("{sql}").first().n)'
        )
        answer = self.run([sys.executable, "-c", program], shown="python")
        count = int(answer.stdout.split()[-1]) if answer.returncode == 0 else -1
        after, quarantined = self.traffic.produced[TOPIC], self.board.seen[TABLE].quarantined or 0
        self.console.print(
            f"SQL counts {count:,} rows, {quarantined} are in quarantine; the producer had {before:,} acknowledged "
            f"before and {after:,} after."
        )
        return self.verdict(before <= count + quarantined <= after, "every acknowledged order can be read")

    def poison(self) -> bool:
        """One record that is no Avro: it is quarantined with its cause, the rest flows on."""
        self.title("2  A poison record in the topic")
        before, rows = self.board.seen[TABLE].quarantined or 0, self.board.seen[TABLE].rows or 0
        self.traffic.send(TOPIC, b"this is no order")
        self.console.print("Sent one value that is no Avro to topic orders.")
        found = self.until(lambda: (self.board.seen[TABLE].quarantined or 0) == before + 1)
        flows = self.until(lambda: (self.board.seen[TABLE].rows or 0) > rows)
        self.run(["tidemark", "status", TABLE, "--quarantine"])
        return self.verdict(found and flows, "one record in quarantine, the others went on")

    def kill(self) -> bool:
        """SIGKILL to the run while it writes; the next one continues, and the offsets are counted."""
        self.title("3  kill -9 in the middle of a batch")
        left_behind = self._attempt_branches()
        self.traffic.add(TOPIC, BURST)
        victim = self._in_mid_batch(left_behind)
        if victim:
            with suppress(psutil.Error):
                victim.kill()
                self.console.print(
                    f"$ kill -9 {victim.pid}    # the run, with a batch staged and not published"
                )
        sent = self.traffic.produced[TOPIC]
        self.console.print("The sensor asks for another run; it plans from what the table says.")
        level = self.until(lambda: self._readable() >= sent)
        answer = self.run(["tidemark", "reconcile", TABLE])
        right = victim is not None and level and answer.returncode == 0
        return self.verdict(right, "0 gaps, 0 duplicates after the kill")

    def _in_mid_batch(self, left_behind: set[str]) -> psutil.Process | None:
        """The process of the run that ingests the orders, caught while a branch of its attempt is on the table."""
        dagster = self.stage.dagster
        ours: psutil.Process | None = None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if ours is None or not ours.is_running():
                ours = next((each for each in dagster.run_processes() if dagster.ingests(each, TABLE)), None)
            elif self._attempt_branches() - left_behind:
                return ours
            time.sleep(0.02)
        return None

    def _attempt_branches(self) -> set[str]:
        table = load(self.board.lake.catalog, TABLE)
        refs = table.metadata.refs if table else {}
        return {name for name in refs if name.startswith(BRANCH_PREFIX) and name != LEDGER_TAG}

    def _readable(self) -> int:
        """Orders that are in the table or in its quarantine."""
        orders = self.board.seen[TABLE]
        return (orders.rows or 0) + (orders.quarantined or 0)

    def until(self, condition: Callable[[], bool]) -> bool:
        """Look every second until the condition holds; False when patience ends."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.board.refresh()
            if condition():
                return True
            time.sleep(1)
        return False

    def run(self, words: list[str], *, shown: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Print a command, run it, print what it said."""
        told = [shown, *words[1:]] if shown else words
        self.console.print(f"$ {shlex.join(told)}", style="bold cyan", soft_wrap=True)
        answer = self._answer(words)
        said = (answer.stdout + answer.stderr).rstrip().splitlines()
        self.console.print("\n".join(said[-SHOWN:]))
        return answer

    def ask(self, words: list[str]) -> str:
        """What a command prints on stdout, without showing it."""
        return self._answer(words).stdout

    def _answer(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        if words[0] == "tidemark":
            words = [str(Path(sys.executable).with_name("tidemark")), *words[1:]]
        environment = {**os.environ, **self.stage.dagster.environment(), "COLUMNS": str(self.console.width)}
        try:
            return subprocess.run(
                words, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            late = f"no answer within {PATIENCE:.0f} s: this machine is busy, or too small"
            return subprocess.CompletedProcess(words, NO_ANSWER, "", late)

    def title(self, text: str) -> None:
        """What the next step is about."""
        self.console.print()
        self.console.print(text, style="bold")

    def verdict(self, right: bool, what: str) -> bool:  # noqa: FBT001
        """Say whether it went right, and hand that on."""
        word, color = ("right", "green") if right else ("WRONG", "bold red")
        self.console.print(Text.assemble((word, color), f": {what}"))
        return right
