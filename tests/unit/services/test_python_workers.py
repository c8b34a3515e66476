"""Rule: what Spark forks its Python workers from ends when nobody has asked for one for a while, and not before."""

import subprocess
import sys
import time

DAEMON = """
import os, select, time
from tidemark.services import python_workers
python_workers.IDLE = 1.0
python_workers.leave_when_idle()
print(time.monotonic(), flush=True)
if os.fork() == 0:
    time.sleep({busy})
    os._exit(0)
os.waitpid(-1, 0)
while True:
    select.select([], [], [], 60)
"""


def test_a_daemon_without_workers_ends_and_one_with_a_worker_does_not():
    """Given a daemon whose worker lives for longer than it would wait, then it ends by itself once the worker has."""
    daemon = [sys.executable, "-c", DAEMON.format(busy=1.5)]
    ended = subprocess.run(daemon, stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    assert ended.returncode == 0
    assert time.monotonic() - float(ended.stdout) > 2.0
