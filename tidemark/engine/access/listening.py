"""Whether anything listens at the address of a service, asked without its client: Spark's tries for ten minutes."""

import socket
from urllib.parse import urlsplit

SPARK_PORT = 15002
_PORTS = {"https": 443, "http": 80}


def listens(url: str | None, seconds: float) -> bool:
    """Whether something at the host and port of a URL accepts a connection within these `seconds`."""
    place = urlsplit(url or "")
    if not place.hostname:
        return False
    port = place.port or _PORTS.get(place.scheme, SPARK_PORT)
    try:
        with socket.create_connection((place.hostname, port), seconds):
            return True
    except OSError:
        return False
