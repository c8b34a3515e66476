"""All measurements besides the side-by-side drains, one after the other: `python -m bench.everything`.

What each says goes to bench/results/<time>-<name>.txt. Exit code 1 when any failed; the others go on.
"""

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.sidebyside.report import RESULTS, machine
from tidemark.services.ports import without_proxy
from tidemark.services.stack import Stack

OWN = {  # with services of their own
    "trickle-2s": ("-m", "bench.sidebyside.trickle", "--every", "2"),
    "trickle-60s": ("-m", "bench.sidebyside.trickle", "--every", "60"),
    "many": ("-m", "bench.sidebyside.many"),
    "idle": ("-m", "bench.sidebyside.idle"),
}
SHARED = {  # against one stack
    "growth-commits": ("bench/growth.py", "commits"),
    "growth-partitions": ("bench/growth.py", "partitions"),
    "growth-tables": ("bench/growth.py", "tables"),
    "microbatch": ("bench/ingest.py", "microbatch"),
    "drain": ("bench/ingest.py", "drain"),
    "rules": ("bench/ingest.py", "rules"),
    "ingest-formats": ("bench/ingest.py", "formats"),
    "formats": ("bench/formats.py",),
    "upsert-10m": ("bench/upsert.py", "--rows", "1000000", "10000000"),
    "upsert-reads": ("bench/upsert_reads.py",),
    "maintenance": ("bench/maintenance.py",),
    "maintenance-proof": ("bench/maintenance_proof.py",),
}


def say(name: str, arguments: tuple[str, ...], home: str) -> bool:
    """Run one and keep its words; gives whether it went well."""
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%MZ}-{name}.txt"
    print(f"{name} → {path}", flush=True)
    with path.open("w") as out:
        out.write(f"{' '.join(arguments)}\n{machine()}\n\n")
        out.flush()
        environ = {**os.environ, "TIDEMARK_HOME": home}
        command = [sys.executable, *arguments]
        return not subprocess.run(command, stdout=out, stderr=out, env=environ, check=False).returncode


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    without_proxy(os.environ)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as home:
        well = [say(name, arguments, home) for name, arguments in OWN.items()]
        stack = Stack(Path(home))
        stack.up()
        try:
            well += [say(name, arguments, home) for name, arguments in SHARED.items()]
        finally:
            stack.down()
    sys.exit(not all(well))


if __name__ == "__main__":
    main()
