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

from tidemark.services.ports import without_proxy

WANTED_EVERY = timedelta(seconds=5)
LOOKS = 2
"""So often it must be missing: when both are told to end, each may do so by itself."""


def end_with_child() -> None:
    """End this process when the newest one that serves the definitions, once it was there, is missing.

    After a reload an older one stays until its runs are done, and answers nobody.
    """
    known: set[psutil.Process] = set()
    newest, missing = None, 0
    while missing < LOOKS:
        time.sleep(WANTED_EVERY.total_seconds())
        serving = _serving()
        newest = next((each for each in reversed(serving) if each not in known), newest)
        missing = missing + 1 if newest and newest not in serving else 0
        known.update(serving)
    sys.stderr.write(
        "The process that serves the definitions is gone; without it nothing is answered: ending.\n"
    )
    sys.stderr.flush()
    os._exit(1)


def _serving() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.Error):  # it has just ended
            if "grpc" in each.cmdline():
                found.append(each)
    return found


if __name__ == "__main__":
    without_proxy(os.environ)
    client.CLIENT_HEARTBEAT_INTERVAL = int(WANTED_EVERY.total_seconds())
    threading.Thread(target=end_with_child, daemon=True).start()
    code_server_cli()
