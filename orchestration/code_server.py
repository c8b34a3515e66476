"""Dagster's code server, whose process of the definitions is told every five seconds, not every one, that it is wanted.

That process ends when it has heard nothing for half a minute. Of the processor time that quiet topics cost, answering
once a second is a good part, here and there.

Without that process Dagster's own goes on for ever, and answers nothing but health checks: this one ends, to be started
anew by whatever keeps it up.
"""

import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta

import psutil
from dagster._cli.code_server import code_server_cli
from dagster._grpc import client

WANTED_EVERY = timedelta(seconds=5)
LOOKS = 2
"""So often it must be missing: when both are told to end, each may do so by itself."""


def end_with_child() -> None:
    """End this process when the one that serves the definitions, once it was there, is missing."""
    while not _serves():
        time.sleep(WANTED_EVERY.total_seconds())
    missing = 0
    while missing < LOOKS:
        time.sleep(WANTED_EVERY.total_seconds())
        missing = 0 if _serves() else missing + 1
    sys.stderr.write(
        "The process that serves the definitions is gone; without it nothing is answered: ending.\n"
    )
    sys.stderr.flush()
    os._exit(1)


def _serves() -> bool:
    for each in psutil.Process().children():
        with suppress(psutil.Error):  # it has just ended
            if "grpc" in each.cmdline():
                return True
    return False


if __name__ == "__main__":
    client.CLIENT_HEARTBEAT_INTERVAL = int(WANTED_EVERY.total_seconds())
    threading.Thread(target=end_with_child, daemon=True).start()
    code_server_cli()
