"""Errors leave as words with a next step, or as JSON; exit codes mean what README.md says."""

import errno
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from typer.testing import CliRunner

from tidemark import __version__
from tidemark.cli.border import report
from tidemark.cli.main import app
from tidemark.cli.output import print_json
from tidemark.domain.errors import Outage, Refused, Stopped, TidemarkError
from tidemark.engine.verify.committed import _at_end
from tidemark.services.errors import JavaMissing, ServiceFailed

HEAVY = {
    "pyspark",
    "dagster",
    "pyiceberg",
    "pyarrow",
    "confluent_kafka",
    "pandas",
    "numpy",
    "httpx",
    "pydantic",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "orders.yaml").write_text("topic: orders\ntable: shop.orders\n")
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.delenv("TIDEMARK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["run", "status", "reconcile"])
def test_a_mistyped_table_is_bad_use_and_names_the_nearest(command: str) -> None:
    told = CliRunner().invoke(app, [command, "shop.order"])
    assert told.exit_code == 2
    assert "did you mean shop.orders?" in told.stderr
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_under_json_the_same_error_is_an_object_on_stdout() -> None:
    told = CliRunner().invoke(app, ["status", "shop.order", "--json"])
    assert told.exit_code == 2
    error = json.loads(told.stdout)["error"]
    assert error["kind"] == "Refused"
    assert error["table"] == "shop.order"
    assert error["next_step"] == "did you mean shop.orders?"


def test_bad_use_of_the_command_line_itself_is_json_too() -> None:
    told = CliRunner().invoke(app, ["pause", "--json"])
    assert told.exit_code == 2
    error = json.loads(told.stdout)["error"]
    assert "TABLE" in error["message"]
    assert error["next_step"].endswith(" pause --help")


@pytest.mark.parametrize("flags", [[], ["--first-load", "--new-epoch"]])
def test_accept_wants_exactly_one_stop_state(flags: list[str]) -> None:
    told = CliRunner().invoke(app, ["accept", "shop.orders", "--reason", "why", *flags, "--json"])
    assert told.exit_code == 2
    assert "exactly one" in json.loads(told.stdout)["error"]["message"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--quarantine", "--from", "1", "--to", "5"], "--partition"),
        (["--quarantine", "--partition", "0", "--from", "5", "--to", "3"], "--from 5 --to 3 is nothing"),
        (["--partition", "0", "--from", "5", "--to", "5"], "--from 5 --to 5 is nothing"),
        (["--partition", "-1", "--from", "0", "--to", "5"], "greater than or equal to 0"),
    ],
)
def test_a_replay_of_no_offsets_is_bad_use(flags: list[str], words: str) -> None:
    told = CliRunner().invoke(app, ["replay", "shop.orders", "--reason", "why", *flags, "--json"])
    assert told.exit_code == 2
    assert words in json.loads(told.stdout)["error"]["message"]


@pytest.mark.parametrize("key", ["0xZZ", "0xABC"])
def test_a_key_that_is_no_hexadecimal_is_bad_use_and_says_how_the_text_is_asked_for(key: str) -> None:
    told = CliRunner().invoke(app, ["where", "orders", "--key", key, "--json"])
    assert told.exit_code == 2
    assert f"say --key 0x{key.encode().hex()}" in json.loads(told.stdout)["error"]["message"]


def test_the_quarantine_of_tables_that_are_not_fresh_is_not_what_status_tells() -> None:
    told = CliRunner().invoke(app, ["status", "--quarantine", "--not-fresh", "--json"])
    assert told.exit_code == 2
    assert "either --quarantine or --not-fresh" in json.loads(told.stdout)["error"]["message"]


def test_a_broken_contract_names_file_and_line_and_exits_with_2(home: Path) -> None:
    (home / "contracts" / "orders.yaml").write_text("topic: orders\ntarget_lagg: 5s\n")
    told = CliRunner().invoke(app, ["status", "--json"])
    assert told.exit_code == 2
    problems = json.loads(told.stdout)["error"]["problems"]
    assert [(p["line"], p["suggestion"]) for p in problems] == [(2, "target_lag")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("no"), 2),
        (TidemarkError("no address"), 2),
        (Stopped("topic_recreated", "shop.orders", ""), 1),
        (Outage("kafka_down", "shop.orders", ""), 1),
        (TidemarkError("no address", state="kafka_down"), 1),
        (RuntimeError("a fault of ours"), 1),
        (ServiceFailed("spark", "ended", Path("/no.log")), 1),
        (JavaMissing("no Java"), 2),
    ],
)
def test_exit_codes(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error, as_json=True) == code
    assert {"kind", "message", "next_step"} <= json.loads(capsys.readouterr().out)["error"].keys()


def test_records_that_kafka_deletes_while_they_are_counted_are_no_bad_use() -> None:
    late = Message(topic="orders", error=KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    with pytest.raises(TidemarkError, match="Kafka deleted records of orders") as deleted:
        _at_end(late)
    assert report(deleted.value, as_json=True) == 1


def test_a_traceback_is_shown_only_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(RuntimeError("a fault of ours"), as_json=False)
    assert "RuntimeError: a fault of ours" in (calm := capsys.readouterr().err)
    assert "--debug" in calm
    assert "Traceback" not in calm
    monkeypatch.setenv("TIDEMARK_DEBUG", "1")
    with pytest.raises(ZeroDivisionError) as caught:
        print(1 / 0)
    report(caught.value, as_json=False)
    assert "Traceback" in capsys.readouterr().err


def test_the_package_can_be_run_as_the_command() -> None:
    command = [sys.executable, "-m", "tidemark", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == f"tidemark {__version__}\n"
    assert json.loads(CliRunner().invoke(app, ["--version", "--json"]).stdout) == {"version": __version__}


def test_help_imports_nothing_heavy() -> None:
    program = "import sys, tidemark.cli.main; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(found.stdout.split())


def test_what_a_command_leaves_goes_with_its_process_unsearched() -> None:
    """Given all that a command has imported, when Python ends, then it does not look for garbage among it: a second."""
    program = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); import tidemark.cli.main"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"


def test_json_holds_before_the_command_as_well_as_behind_it() -> None:
    told = CliRunner().invoke(app, ["--json", "status", "shop.order"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["kind"]) == (2, "Refused")


@pytest.mark.parametrize("words", [["--json", "services", "status"], ["services", "--json", "status"]])
def test_json_holds_on_both_sides_of_a_group(words: list[str]) -> None:
    told = CliRunner().invoke(app, words)
    assert (told.exit_code, set(json.loads(told.stdout)["services"].values())) == (1, {"stopped"})


def test_what_is_asked_before_java_is_fetched_is_no_part_of_the_output() -> None:
    """Given no --yes, then people are asked on stderr, and programs, which cannot answer, are told what to say."""
    told = CliRunner().invoke(app, ["services", "install-java"], input="n\n")
    assert told.exit_code == 130
    assert "Temurin" in told.stderr
    assert "Temurin" not in told.stdout
    told = CliRunner().invoke(app, ["services", "install-java", "--json"])
    assert told.exit_code == 2
    assert "say --yes" in json.loads(told.stdout)["error"]["message"]


def test_a_topic_that_no_cluster_could_have_is_bad_use() -> None:
    told = CliRunner().invoke(app, ["new", "a b", "--json"])
    assert told.exit_code == 2
    assert "'a b' is not a topic name" in json.loads(told.stdout)["error"]["message"]


def test_a_port_that_no_machine_has_is_bad_use() -> None:
    assert CliRunner().invoke(app, ["metrics", "--port", "99999999"]).exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_output_that_cannot_be_written_is_said_in_one_line() -> None:
    """Given a full disk behind stdout, when a command prints, then there is no traceback, and the exit code is no success."""
    command = [sys.executable, "-m", "tidemark", "check", "--json"]
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert told.returncode == 1
    assert told.stderr == "the output cannot be written: [Errno 28] No space left on device\n"


def test_a_full_disk_is_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), as_json=True) == 2
    assert "make room" in json.loads(capsys.readouterr().out)["error"]["next_step"]


def test_a_full_disk_below_dagster_is_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Given a database of SQLite that can grow no more, when SQLAlchemy says so in its own words, then room is asked for."""
    engine = create_engine("sqlite://")
    with engine.connect() as database:
        database.execute(text("CREATE TABLE runs (body BLOB)"))
        database.execute(text("PRAGMA max_page_count = 2"))
        with pytest.raises(DBAPIError) as caught:
            database.execute(text("INSERT INTO runs VALUES (zeroblob(100000))"))
    engine.dispose()
    assert report(caught.value, as_json=True) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == "this machine takes no more: database or disk is full"
    assert "make room" in error["next_step"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_whose_output_is_closed_does_its_work(home: Path, closed: str) -> None:
    """Given no stdout or no stderr at all, as a job of cron may have it, when a command is done, then the exit code says so."""
    command = f"{shlex.quote(sys.executable)} -m tidemark check"
    told = subprocess.run(["/bin/sh", "-c", f"{command} {closed}"], capture_output=True, check=False)
    assert (told.returncode, told.stderr) == (0, b"")
    (home / "contracts" / "orders.yaml").write_text("topic: orders\nsurprise: 1\n")
    told = subprocess.run(["/bin/sh", "-c", f"{command} {closed}"], capture_output=True, check=False)
    assert told.returncode == 2
    assert b"Traceback" not in told.stderr


def test_a_terminal_that_knows_only_ascii_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an output without dashes and ellipses, when a command prints them, then words lose them and JSON spells them."""
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written := BytesIO(), encoding="ascii"))
    with pytest.raises(SystemExit):
        app(["check", "--json"])
    print_json({"next": "–"})
    print("–")
    sys.stdout.flush()
    assert written.getvalue().decode().endswith('{"next": "\\u2013"}\n?\n')


def test_an_interrupted_command_answers_under_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidemark.cli.status.status", interrupted)
    told = CliRunner().invoke(app, ["status", "shop.orders", "--json"])
    assert told.exit_code == 130
    error = json.loads(told.stdout)["error"]
    assert (error["kind"], error["next_step"]) == ("Interrupted", "tidemark status shop.orders --json")
    told = CliRunner().invoke(app, ["status"])
    assert (told.exit_code, told.stdout) == (130, "")


def test_sigterm_interrupts_any_command() -> None:
    """Given a command that works outside of Dagster, when SIGTERM comes, then it ends as by Ctrl-C."""
    program = (
        "import signal, tidemark.cli.check as check, tidemark.cli.main as main\n"
        "check.check = lambda **_: signal.raise_signal(signal.SIGTERM)\n"
        "main.app(['check', '--json'])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (told.returncode, json.loads(told.stdout)["error"]["kind"]) == (130, "Interrupted")


@contextmanager
def looking(
    home: Path, *words: str, **streams: int
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
    """A command over a catalog that takes a request and does not answer; the second waits until one is asked."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        (home / "contracts" / "orders.yaml").write_text("topic: orders\nvalue: {format: raw}\n")
        (home / "platform.yaml").write_text(
            "kafka: {main: {bootstrap.servers: '127.0.0.1:1'}}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
            f"catalog: {{type: rest, uri: 'http://127.0.0.1:{silent.getsockname()[1]}'}}\n"
        )
        command = [sys.executable, "-m", "tidemark", *words]
        environment = {**os.environ, "TIDEMARK_CONFIG": str(home / "platform.yaml")}
        with (
            subprocess.Popen(
                command, text=True, env=environment, **{"stdout": subprocess.PIPE, **streams}
            ) as process,
            ExitStack() as asked,
        ):
            yield process, lambda: asked.enter_context(silent.accept()[0]).recv(1) and None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_only_looks_ends_at_once(home: Path, number: signal.Signals) -> None:
    """Given a catalog that does not answer, when the command is interrupted, then it waits for no thread that looks."""
    with looking(home, "status", "--json") as (process, until_asked):
        until_asked()
        process.send_signal(number)
        began = time.monotonic()
        out, _ = process.communicate()
        took = time.monotonic() - began
    assert (process.returncode, json.loads(out)["error"]["kind"]) == (130, "Interrupted")
    assert took < 10, "the catalog has 30 s"


def test_a_command_ends_with_its_terminal(home: Path) -> None:
    """Given a terminal that is closed, as with a connection that is lost, then its command ends at once as by Ctrl-C, though nobody can be told."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    screen, terminal = os.openpty()
    with looking(home, "status", "--json", stdout=terminal, stderr=terminal) as (process, until_asked):
        until_asked()
        os.close(screen)
        os.close(terminal)
        process.send_signal(signal.SIGHUP)
        began = time.monotonic()
        assert process.wait() == 1
        assert time.monotonic() - began < 10, "the catalog has 30 s"


def test_metrics_end_at_once_though_somebody_reads_them(home: Path) -> None:
    """Given a scrape that waits for a catalog, when the command is told to end, then it does, as meant."""
    with looking(home, "metrics", "--port", "0") as (process, until_asked):
        port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as scrape:
            scrape.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            until_asked()
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert process.wait() == 0
            assert time.monotonic() - began < 10, "the catalog has 30 s"


def test_an_interrupted_start_of_the_stack_answers_under_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidemark.services.stack.Stack.up", interrupted)
    told = CliRunner().invoke(app, ["services", "up", "--json"])
    assert told.exit_code == 130
    error = json.loads(told.stdout)["error"]
    assert (error["kind"], error["next_step"]) == ("Interrupted", "tidemark services up --json")
    told = CliRunner().invoke(app, ["services", "up"])
    assert (told.exit_code, "stopped again" in told.stdout) == (130, True)


@pytest.mark.parametrize("command", [["pause", "shop.orders", "--reason", "x"], ["drill", "--reason", "x"]])
def test_a_user_without_a_name_is_asked_for_one(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a container under an arbitrary uid, when a verb is asked for without --by, then that is what is missing."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "TIDEMARK_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    told = CliRunner().invoke(app, [*command, "--json"])
    assert told.exit_code == 2
    assert "say --by NAME" in json.loads(told.stdout)["error"]["next_step"]


@pytest.mark.parametrize("home_of_dagster", ["/no/such/folder", "relative"])
def test_a_dagster_home_that_is_not_there_is_bad_use(
    home_of_dagster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", home_of_dagster)
    told = CliRunner().invoke(app, ["pause", "shop.orders", "--reason", "x", "--by", "ada", "--json"])
    assert told.exit_code == 2
    error = json.loads(told.stdout)["error"]
    assert home_of_dagster in error["message"]
    assert "make that folder (docs/deployment" in error["next_step"]


@pytest.mark.parametrize("command", [["services", "up"], ["dev"], ["pause", "shop.orders", "--by", "ada"]])
def test_a_home_that_cannot_be_written_is_bad_use_and_named(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a home where not even root can make a folder, then the path is told, and what to do."""
    monkeypatch.setenv("TIDEMARK_HOME", "/sys/tidemark")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 2
    assert "/sys/tidemark" in told.stderr
    assert "name another folder: TIDEMARK_HOME" in told.stderr.replace("\n", " ")


@pytest.mark.parametrize("command", [["up"], ["install-java", "--yes"]])
@pytest.mark.parametrize("cache", ["/sys/tidemark", "/proc/tidemark/cache"])
def test_a_cache_that_cannot_be_made_is_bad_use_and_named(
    command: list[str], cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a cache folder that is refused, or where no folder can be, then the path is told, and the variable."""
    monkeypatch.setenv("TIDEMARK_CACHE", cache)
    told = CliRunner().invoke(app, ["services", *command, "--json"])
    assert told.exit_code == 2
    error = json.loads(told.stdout)["error"]
    assert error["kind"] == "Refused"
    assert cache.startswith(error["message"].partition(":")[0])
    assert "TIDEMARK_CACHE" in error["next_step"]


def test_a_file_that_is_missing_elsewhere_is_a_fault_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/contracts/orders.yaml")
    assert report(missing, as_json=True) == 1
    assert "please report it" in json.loads(capsys.readouterr().out)["error"]["next_step"]


def test_a_path_of_another_user_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/contracts/orders.yaml")
    assert report(denied, as_json=True) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["message"]) == ("Refused", "/contracts/orders.yaml: Permission denied")
