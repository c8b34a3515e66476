"""Dagster's code server, whose process of the definitions is told every five seconds, not every one, that it is wanted.

That process ends when it has heard nothing for half a minute. Of the processor time that quiet topics cost, answering
once a second is a good part, here and there.
"""

from datetime import timedelta

from dagster._cli.code_server import code_server_cli
from dagster._grpc import client

WANTED_EVERY = timedelta(seconds=5)

if __name__ == "__main__":
    client.CLIENT_HEARTBEAT_INTERVAL = int(WANTED_EVERY.total_seconds())
    code_server_cli()
