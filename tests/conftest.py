"""The embedded stack for every test that needs real services: started once per session, always stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import pytest
import seeds
from own_home import own_home

from tidemark.services.ports import without_proxy
from tidemark.services.stack import Stack

without_proxy(os.environ)  # which gRPC would ask for the Spark server

# Waits for the end of its input, which is the end of this process however it comes, and clears up behind it.
GUARD = """
import sys
sys.stdin.read()
from pathlib import Path
from tidemark.services.stack import Stack
Stack(Path(sys.argv[1])).down()
"""

# A stack of tests lives for minutes: what the JVM's optimizing compiler costs, a third of all CPU, never comes back.
# Without it the code cache is a fifth, and a server that compiles every query is soon busy with sweeping it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

# How long an example takes says something of the machine, not of the code.
hypothesis.settings.register_profile(
    "tidemark",
    derandomize=not seeds.ALWAYS_NEW,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tidemark")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # started in the background of a script: without this, what the tests start could not be interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _always_stopped(home: Path) -> Iterator[Stack]:
    """A stack in `home` that is down afterwards, even when this process is killed."""
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, home], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield Stack(home)
    finally:
        guard.communicate()
        assert guard.returncode == 0, f"the stack in {home} was not taken down"


@pytest.fixture(scope="session")
def always_stopped() -> Callable[[Path], AbstractContextManager[Stack]]:
    """`with always_stopped(home) as stack:` for tests that need a stack of their own."""
    return _always_stopped


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The status of a running stack (CONTRACT: `services status --json`); TIDEMARK_TEST_HOME names one to reuse."""
    reuse = os.environ.get("TIDEMARK_TEST_HOME")
    if reuse:
        yield Stack(own_home(Path(reuse))).up()
        return
    with _always_stopped(tmp_path_factory.mktemp("stack")) as own:
        yield own.up()


def pytest_configure() -> None:
    """SIGTERM ends a test run as Ctrl-C does, fixtures included."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
