"""Rule: what `catalog.auth` and `catalog.ssl` say is what PyIceberg's REST client does."""

import json
from base64 import b64decode
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.variant_metadata import FILE_IO
from tidemark.engine.config.configuration import load
from tidemark.engine.table.folder import give_up

SAID = """
kafka: {{main: {{bootstrap.servers: "h:1"}}}}
spark: {{remote: "sc://h:1"}}
catalog: {{type: rest, uri: "{uri}", {more}}}
"""
LOGIN = """auth: {{type: basic, basic: {{username: tide, password: 0042}}}},
  ssl: {{cabundle: /ca.pem, client: {{cert: {home}/crt.pem, key: {home}/key.pem}}}}"""


def lake_of(home, uri, more):
    (home / "platform.yaml").write_text(SAID.format(uri=uri, more=more.format(home=home)))
    return Lake(load(home / "platform.yaml", home / "contracts", environ={}, home=home))


@pytest.fixture
def server():
    """A catalog that has nothing but a configuration; its URL, and what it was told about who asks."""
    logins = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            logins.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            said = {"defaults": {}, "overrides": {}, "endpoints": ["GET /v1/{prefix}/namespaces/{namespace}"]}
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_):
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", logins
    made.shutdown()
    made.server_close()
    thread.join()


def test_a_login_and_certificates_are_those_of_the_platform_file(server, tmp_path):
    """Given mappings in PyIceberg's words, and a password of digits, when the catalog is opened, then a missing file is named, or it logs in so; Spark is told nothing of them."""
    uri, logins = server
    lake = lake_of(tmp_path, uri, LOGIN)
    with pytest.raises(Stopped, match=f"{tmp_path}/crt.pem") as caught:
        lake.catalog  # noqa: B018 - opened on first use
    assert caught.value.state == "misconfigured"
    for name in ("crt.pem", "key.pem"):
        (tmp_path / name).touch()
    catalog = lake.catalog
    assert b64decode(logins[0].removeprefix("Basic ")) == b"tide:0042"
    assert catalog._session.verify == "/ca.pem"
    assert catalog._session.cert == (f"{tmp_path}/crt.pem", f"{tmp_path}/key.pem")
    assert type(catalog._load_file_io({}, f"file://{tmp_path}")).__name__ == FILE_IO.rpartition(".")[2]
    assert not [key for key in lake.platform.catalog.spark_conf() if key.endswith((".auth", ".ssl"))]


@pytest.mark.parametrize(
    "login",
    [
        "{{type: google, google: {{credential_path: a}}}}",
        "{{type: custom, impl: nowhere.Login}}",
        "{{type: custom, impl: pathlib.Path}}",
    ],
)
def test_a_login_that_cannot_work_is_no_outage(server, tmp_path, login):
    """Given arguments that a login does not take, or a class that is none, when the catalog is opened, then the platform file is to blame."""
    with pytest.raises(Stopped, match=r"catalog in platform\.yaml") as caught:
        lake_of(tmp_path, server[0], f"auth: {login}").catalog  # noqa: B018 - opened on first use
    assert caught.value.state == "misconfigured"


def test_what_pyiceberg_is_told_elsewhere_is_not_mixed_in(server, tmp_path, monkeypatch):
    """Given an environment with properties for PyIceberg's catalog of this name, when the catalog is opened, then it has those of the platform file alone, as Spark does."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__REGION", "eu-west-1")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", told := Config())
    assert told.get_catalog_config("lake") == {"s3.region": "eu-west-1"}
    assert "s3.region" not in lake_of(tmp_path, server[0], "").catalog.properties


@pytest.mark.parametrize(
    ("folder", "refused"), [("s3://b/7a1c--table-s3", False), ("s3://b/shop/orders/", True)]
)
def test_a_catalog_that_changes_no_properties_of_namespaces(server, tmp_path, monkeypatch, folder, refused):
    """Given one without that endpoint, when a table is renamed, then no note is left where tables share no folder, as in S3 Tables; where they lie in that of their name it is refused."""
    catalog = lake_of(tmp_path, server[0], "").catalog
    table = SimpleNamespace(name=lambda: ("shop", "orders"), location=lambda: folder)
    monkeypatch.setattr(catalog, "load_table", {"shop.orders": table}.get)
    with pytest.raises(Stopped, match="Name the table as before") if refused else nullcontext():
        give_up(catalog, "shop.orders", "shop.sales")
