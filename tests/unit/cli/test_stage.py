"""Rules: a home has one demo or dev at a time; one that ends leaves nothing behind and says what runs on."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import tidemark.cli.demo.stage as stage_module
from tidemark.cli.border import end_as_by_ctrl_c
from tidemark.cli.demo.hold import DAEMON, end_leftovers, held
from tidemark.cli.demo.show import demo
from tidemark.cli.demo.stage import ENDS, in_another_terminal, stage
from tidemark.domain.errors import Refused
from tidemark.services.processes import Command, Mark, has_ended, start

CONTRACTS = Path(__file__).parents[3] / "contracts"
HOLD = "import sys, time\nfrom pathlib import Path\nfrom tidemark.cli.demo.hold import held\n"
HOLD += "with held(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"


class Dagster:
    """Notes what is asked of it; a signal may come while it goes down."""

    def __init__(self, _places: object) -> None:
        self.calls: list[str] = []
        world.append(self)

    def up(self) -> None:
        self.calls.append("up")

    def down(self) -> None:
        for number in ENDS:
            os.kill(os.getpid(), number)
        self.calls.append("down")


class Stack:
    """Runs already, or does not."""

    running = False

    def __init__(self, _home: Path) -> None:
        self.calls: list[str] = []
        world.append(self)

    def status(self) -> dict[str, object]:
        return {"processes": {"kafka": 1 if self.running else None}}

    def up(self, _show: object) -> None:
        self.calls.append("up")

    def down(self) -> None:
        self.calls.append("down")


world: list[Dagster | Stack] = []


@pytest.fixture
def out(tmp_path, monkeypatch):
    """Where the stage speaks; its services are those above."""
    world.clear()
    before = {number: signal.getsignal(number) for number in ENDS}
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(stage_module, "DagsterServices", Dagster)
    monkeypatch.setattr(stage_module, "Stack", Stack)
    embedded = SimpleNamespace(platform=SimpleNamespace(embedded=True))
    monkeypatch.setattr(stage_module, "load_from_environment", lambda: embedded)
    monkeypatch.setattr(Stack, "running", False)
    yield Console(file=io.StringIO(), width=200)
    for number, handler in before.items():
        signal.signal(number, handler)


def said(out: Console) -> str:
    return out.file.getvalue()


def test_a_second_one_is_refused_by_pid_and_may_begin_when_the_first_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "held\n"
        with (
            pytest.raises(Refused, match=f"process {first.pid} runs a demo or dev") as refused,
            held(tmp_path),
        ):
            pass
        assert f"kill {first.pid}" in refused.value.next_step
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    with held(tmp_path):
        assert (tmp_path / "dev.lock").read_text() == str(os.getpid())


def test_a_second_one_touches_nothing_of_the_first(out, tmp_path):
    with held(tmp_path / "home"), pytest.raises(Refused), stage(out):
        pass
    assert world == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (None, "a folder with a dagster.yaml"),
        ("telemetry: {enabled: false}", "fail the queued runs of other projects"),
        ("concurrency: {pools: {default_limit: 1, granularity: op}}", "granularity run"),
        ("storage: {custom: {module: none_such, class: Storage, config: {}}}", "none_such"),
        ("storage: [", "does not take"),
    ],
)
def test_nothing_is_started_on_a_dagster_for_other_work(out, tmp_path, monkeypatch, settings, told):
    """Given the DAGSTER_HOME of somebody's other projects, when dev begins, then it is refused: a daemon takes all that its instance has in the queue."""
    elsewhere = tmp_path / "dagster of all"
    elsewhere.mkdir()
    if settings:
        (elsewhere / "dagster.yaml").write_text(settings)
    monkeypatch.setenv("DAGSTER_HOME", str(elsewhere))
    with pytest.raises(Refused, match=told) as refused, stage(out):
        pass
    assert str(elsewhere) in refused.value.message
    assert "unset DAGSTER_HOME" in refused.value.next_step
    assert world == []


def test_the_demo_has_its_own_dagster_whatever_the_terminal_names(out, tmp_path, monkeypatch):
    """Given the DAGSTER_HOME of somebody's other projects, when the demo begins, then Dagster starts on the one of Tidemark's home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(CONTRACTS))
    monkeypatch.delenv("TIDEMARK_CONFIG", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster of all"))

    def starts(_dagster):
        raise Refused(os.environ["DAGSTER_HOME"])

    monkeypatch.setattr(Dagster, "up", starts)
    with pytest.raises(Refused) as on:
        demo(script=True, keep=False)
    assert on.value.message == str(tmp_path / "home" / "dagster")
    assert " && unset DAGSTER_HOME" in in_another_terminal("DAGSTER_HOME")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_it_and_further_ones_do_not_disturb(out, number):
    signal.signal(number, signal.SIG_DFL)  # these tests may run under nohup
    end_as_by_ctrl_c(number)
    with pytest.raises(KeyboardInterrupt), stage(out):
        signal.raise_signal(number)
    assert [each.calls for each in world] == [["up", "down"], ["up", "down"]]
    assert "Nothing runs any more." in said(out)


def test_a_closed_terminal_does_not_keep_it_from_ending(out, monkeypatch):
    with stage(out):
        monkeypatch.setattr(out.file, "write", lambda _text: (_ for _ in ()).throw(OSError(5, "closed")))
    assert [each.calls for each in world] == [["up", "down"], ["up", "down"]]


def test_a_stack_that_was_up_before_runs_on_and_is_named(out, monkeypatch):
    monkeypatch.setattr(Stack, "running", True)
    with stage(out):
        pass
    assert [each.calls for each in world] == [["up"], ["up", "down"]]
    assert "Nothing runs any more" not in said(out)
    assert "tidemark services down" in said(out)


def test_a_hangup_that_nohup_ignores_stays_ignored(out):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_as_by_ctrl_c(signal.SIGHUP)
    with stage(out):
        os.kill(os.getpid(), signal.SIGHUP)
    assert "Nothing runs any more." in said(out)


def test_the_printed_commands_work_in_another_terminal_after_one_line(tmp_path, monkeypatch):
    """Given a demo in a clone, or with settings of its own, then what it prints once brings a fresh shell to the same place."""
    clone = tmp_path / "my clone"
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "activate").write_text("ACTIVE=yes\n")
    monkeypatch.chdir(clone)
    monkeypatch.setattr(sys, "executable", str(clone / ".venv" / "bin" / "python"))
    for name in ("TIDEMARK_HOME", "TIDEMARK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(clone / "contracts"))
    monkeypatch.setenv("DAGSTER_HOME", str(clone / ".tidemark" / "dagster"))
    assert in_another_terminal() == f"cd '{clone}' && . .venv/bin/activate"
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", "mine")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home" / "dagster"))
    assert "DAGSTER_HOME" not in in_another_terminal()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster of all"))
    look = "echo $ACTIVE && pwd && echo $TIDEMARK_HOME $TIDEMARK_CONTRACTS $DAGSTER_HOME"
    told = subprocess.run(
        ["sh", "-c", f"{in_another_terminal()} && {look}"],
        capture_output=True, text=True, check=True, env={}, cwd="/",
    ).stdout.splitlines()  # fmt: skip
    assert told == ["yes", str(clone), f"{tmp_path / 'home'} {clone / 'mine'} {tmp_path / 'dagster of all'}"]


def test_what_a_killed_one_left_is_ended_unless_another_holds_the_home(tmp_path):
    """Given a daemon without its dev, when services go down, then it is ended too; one whose dev lives goes on."""
    sleeper = Command(Path(sys.executable), ["-X"], ["-c", "import time; time.sleep(60)"], tmp_path)
    pid = start(sleeper, Mark.of(DAEMON, tmp_path), tmp_path / "log")
    with held(tmp_path):
        end_leftovers(tmp_path)
        assert not has_ended(pid)
    end_leftovers(tmp_path)
    assert has_ended(pid)
    end_leftovers(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
