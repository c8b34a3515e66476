"""What the embedded Spark server forks its Python workers from: its own daemon, with less left to each task.

Spark runs it as `python -m` (`spark.python.daemon.module`). JSON and Protobuf are decoded in these workers.
"""

import gc
import os
import signal
import sys
import time
from importlib import import_module
from types import FrameType

IDLE = 300.0
"""Seconds without a worker after which a daemon ends."""


def prepare() -> None:
    """Have in this process what every worker, and every task, would otherwise do for itself.

    Spark puts PySpark as a zip file, and a jar, on the path: no bytecode there, and each task reads their tables of
    contents anew (90 ms). A worker that is idle for a minute ends, and the next imports all of pandas, for which
    pyarrow asks when it converts a list (350 ms). After each task it looks for garbage among all of that (45 ms).
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    archives = {path for path in given if path.endswith((".zip", ".jar"))}
    sys.path[:] = [path for path in sys.path if path not in archives]
    for name in ("pandas", "pyarrow.compute", "pyspark.worker"):
        import_module(name)
    gc.freeze()


def leave_when_idle() -> None:
    """End this process once it has had no worker for `IDLE`; Spark starts it again when it needs one.

    Spark ends none before itself: 120 MB once something was decoded in Python, and for each session where these have
    class loaders of their own.
    """
    fork, workers, busy = os.fork, set[int](), time.monotonic()

    def counted() -> int:
        pid = fork()
        workers.add(pid)
        return pid

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal busy
        workers.difference_update([pid for pid in workers if not _alive(pid)])
        if workers:
            busy = time.monotonic()
        elif time.monotonic() - busy > IDLE:
            os._exit(0)

    os.fork = counted
    signal.signal(
        signal.SIGALRM, look
    )  # a timer is not inherited by what is forked, and needs no thread beside a fork
    signal.setitimer(signal.ITIMER_REAL, IDLE / 10, IDLE / 10)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    prepare()
    leave_when_idle()
    import_module("pyspark.daemon").manager()
