"""What the embedded Spark server forks its Python workers from: its own daemon, with less left to each task.

Spark runs it as `python -m` (`spark.python.daemon.module`). JSON and Protobuf are decoded in these workers.
"""

import gc
import os
import sys
from importlib import import_module


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


if __name__ == "__main__":
    prepare()
    import_module("pyspark.daemon").manager()
