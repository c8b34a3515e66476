"""Dagster's daemon, reading the definitions anew when the code server says that they changed, and not every minute too.

Of 200 tables that reading takes a fiftieth of a core, here and in the process that serves the definitions; and asking
once a second whether they changed takes a quarter of what a daemon does whose topics are quiet.
"""

from datetime import timedelta

from dagster._daemon import controller
from dagster._daemon.cli import main
from dagster._grpc import server_watcher

ANYWAY = timedelta(hours=1)
"""The definitions are read again after so long, though nobody says that they changed."""
CHANGED_EVERY = timedelta(seconds=5)
"""The code server is asked whether they changed: as often as sensors tick."""

if __name__ == "__main__":
    controller.RELOAD_WORKSPACE_INTERVAL = int(ANYWAY.total_seconds())
    controller.DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE += controller.RELOAD_WORKSPACE_INTERVAL
    server_watcher.WATCH_INTERVAL = int(CHANGED_EVERY.total_seconds())
    main()
