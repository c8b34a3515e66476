"""Dagster's daemon, reading the definitions anew when the code server says that they changed, and not every minute too.

Of 200 tables that reading takes a fiftieth of a core, here and in the process that serves the definitions.
"""

from datetime import timedelta

from dagster._daemon import controller
from dagster._daemon.cli import main

ANYWAY = timedelta(hours=1)
"""The definitions are read again after so long, though nobody says that they changed."""

if __name__ == "__main__":
    controller.RELOAD_WORKSPACE_INTERVAL = int(ANYWAY.total_seconds())
    main()
