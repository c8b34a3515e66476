"""Dagster's webserver, which asks every five seconds, not every one, whether the definitions changed.

Its own button *Reload definitions* does not wait for that.
"""

import os
from datetime import timedelta

from dagster._grpc import server_watcher
from dagster_webserver.cli import main

from tidemark.services.ports import without_proxy

CHANGED_EVERY = timedelta(seconds=5)

if __name__ == "__main__":
    without_proxy(os.environ)
    server_watcher.WATCH_INTERVAL = int(CHANGED_EVERY.total_seconds())
    main()  # type: ignore[no-untyped-call]
