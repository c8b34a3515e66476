"""What a peer's processes cost, with real processes."""

import sys

import psutil

from bench.sidebyside.meter import Meter

BURN = "import time\nwhile time.process_time() < 1: pass\nprint('burnt', flush=True)\ntime.sleep(60)"
STARTER = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
pathlib.Path(sys.argv[2]).write_text(str(child.pid))
"""


def test_a_server_that_detached_itself_is_counted_once(tmp_path):
    """Given a server seen below its starter and then followed itself, when the starter has ended, its CPU counts once."""
    written = tmp_path / "pid"
    with Meter(tmp_path / "log") as meter:
        meter.run([sys.executable, "-c", STARTER, BURN, written])
        server = psutil.Process(int(written.read_text()))
        meter.follow(server.pid)
        times = server.cpu_times()
        used = times.user + times.system
        cost = meter.stop()
    server.kill()
    assert used >= 0.9
    assert used <= cost.cpu < 1.7 * used
