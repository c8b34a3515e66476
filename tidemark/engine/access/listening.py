"""Whether anything listens at the address of a service, asked without its client: Spark's tries for ten minutes."""

import socket
from os import environ
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy

SPARK_PORT = 15002
_PORTS = {"https": 443, "http": 80}
_HERE = {"localhost", "127.0.0.1", "::1"}


def listens(url: str | None, seconds: float) -> bool:
    """Whether the host and port of a URL, or the proxy before it, accept a connection within these `seconds`."""
    try:
        place = urlsplit(proxy_of(url or "") or url or "")
        if not place.hostname:
            return False
        port = place.port or _PORTS.get(place.scheme, SPARK_PORT)
        with socket.create_connection((place.hostname, port), seconds):
            return True
    except (OSError, ValueError):
        return False


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names, of HTTP as PyIceberg finds it, of Spark Connect as gRPC does.

    None before what is on this machine. Raises ValueError on a URL that is none.
    """
    place = urlsplit(url)
    if not place.hostname or place.hostname in _HERE:
        return None
    if place.scheme == "sc":
        return _grpc_proxy(place.hostname)
    if place.scheme not in _PORTS:
        return None
    found = select_proxy(url, get_environ_proxies(url))
    return found if found is None or "://" in found else f"http://{found}"


def _grpc_proxy(host: str) -> str | None:
    """By names in lower case alone; networks that are spared (10.0.0.0/8) are not looked at."""
    spared = (each.strip() for each in _first_set("no_grpc_proxy", "no_proxy").lower().split(","))
    if any(host.endswith(each) for each in spared if each):
        return None
    found = _first_set("grpc_proxy", "https_proxy", "http_proxy")
    return found if found.startswith("http://") else None


def _first_set(*names: str) -> str:
    """An empty one counts."""
    return next((environ[name] for name in names if name in environ), "")
