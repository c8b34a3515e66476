"""Dagster's daemon, reading the definitions anew when the code server says that they changed, and not every minute too.

Of 200 tables that reading takes a fiftieth of a core, here and in the process that serves the definitions; and asking
once a second whether they changed takes a quarter of what a daemon does whose topics are quiet.
"""

import os
from datetime import timedelta

from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._daemon import controller
from dagster._daemon.cli import main
from dagster._grpc import server_watcher

from tidemark.services.ports import without_proxy

ANYWAY = timedelta(hours=1)
"""The definitions are read again after so long, though nobody says that they changed."""
CHANGED_EVERY = timedelta(seconds=5)
"""The code server is asked whether they changed: as often as sensors tick."""


class Controller(controller.DagsterDaemonController):
    """Of definitions that a code server of their own serves: where the daemon itself starts one, it asks none."""

    def check_workspace_freshness(self, last_workspace_update_time: float) -> float:
        """When the definitions were read; if somebody says when they change, as if that had been ANYWAY later."""
        read = super().check_workspace_freshness(last_workspace_update_time)
        if read == last_workspace_update_time:
            return read
        entries = self._workspace_process_context.create_request_context().get_code_location_entries()
        told = all(isinstance(each.origin, GrpcServerCodeLocationOrigin) for each in entries.values())
        return read + ANYWAY.total_seconds() if told else read


if __name__ == "__main__":
    without_proxy(os.environ)
    controller.DagsterDaemonController = Controller  # type: ignore[misc]
    server_watcher.WATCH_INTERVAL = int(CHANGED_EVERY.total_seconds())
    main()
