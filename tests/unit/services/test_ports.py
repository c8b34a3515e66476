import os
import socket
import subprocess
import sys
from urllib.request import proxy_bypass_environment

import pytest

from bench.sidebyside.ground import Ground, ground
from tidemark.services.ports import LOOPBACK, Ports, accepts, is_free, without_proxy


def taken():
    listener = socket.socket()
    listener.bind((LOOPBACK, 0))
    listener.listen()
    return listener


def test_a_port_is_remembered(tmp_path):
    ports = Ports(tmp_path / "ports.json")
    ports.settle(["kafka", "spark"])
    again = Ports(tmp_path / "ports.json")
    again.settle(["kafka", "spark"])
    assert (again["kafka"], again["spark"]) == (ports["kafka"], ports["spark"])
    assert again["kafka"] != again["spark"]


def test_ports_that_are_settled_side_by_side_are_all_remembered(tmp_path):
    """Given two processes that have read the file, when each settles its own names, then it has those of both; settled again, it is not written."""
    file = tmp_path / "ports.json"
    stack, dagster = Ports(file), Ports(file)
    stack.settle(["kafka"])
    dagster.settle(["web"])
    assert dagster["kafka"] == stack["kafka"]
    assert Ports(file)["kafka"] == stack["kafka"]
    assert Ports(file)["web"] == dagster["web"]
    before = file.stat().st_ino
    Ports(file).settle(["kafka", "web"])
    assert file.stat().st_ino == before


def test_a_remembered_port_that_somebody_took_is_replaced_for_good(tmp_path):
    with taken() as listener:
        port = listener.getsockname()[1]
        (tmp_path / "ports.json").write_text(f'{{"kafka": {port}, "spark": 21000}}')
        ports = Ports(tmp_path / "ports.json")
        ports.settle(["kafka"])
        assert ports["kafka"] != port
    assert Ports(tmp_path / "ports.json")["kafka"] == ports["kafka"]
    assert ports["spark"] == 21000


def test_free_and_accepting_are_opposites():
    with taken() as listener:
        port = listener.getsockname()[1]
        assert (is_free(port), accepts(port)) == (False, True)
    assert (is_free(port), accepts(port)) == (True, False)


def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path):
    (tmp_path / "ports.json").write_text('{"kafka":')
    ports = Ports(tmp_path / "ports.json")
    assert "kafka" not in ports
    ports.settle(["kafka"])
    assert ports["kafka"] > 0


def test_what_listens_here_is_asked_without_a_proxy_and_what_was_spared_stays_so():
    for before in ({}, {"no_proxy": ""}, {"NO_PROXY": "intra.example"}):
        environ = dict(before)
        without_proxy(environ)
        spared = environ["no_proxy"].split(",")
        assert {LOOPBACK, "localhost", *before.get("NO_PROXY", LOOPBACK).split(",")} == set(spared)
        assert environ["NO_PROXY"] == environ["no_proxy"]
        without_proxy(again := dict(environ))
        assert again == environ
    without_proxy(everything := {"no_proxy": "*"})
    assert everything == {"no_proxy": "*"}


@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("orchestration.code_server", "dagster._cli.code_server.code_server_cli"),
        ("orchestration.daemon", "dagster._daemon.cli.main"),
        ("orchestration.webserver", "dagster_webserver.cli.main"),
    ],
)
def test_dagsters_processes_ask_no_proxy_for_what_is_here(module, place):
    """Given a proxy for gRPC, when a process of Dagster begins without the command line, then Spark and the code server here are spared."""
    owner, _, name = place.rpartition(".")
    program = f"import os, runpy, {owner} as owner\nowner.{name} = lambda: print(os.environ['no_proxy'])\n"
    program += f"runpy.run_module({module!r}, run_name='__main__')"
    environ = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert told.stdout == f"{LOOPBACK},localhost\n"


def test_neither_do_tests_and_measurements(monkeypatch):
    assert proxy_bypass_environment(LOOPBACK)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setattr(Ground, "up", lambda _: None)
    monkeypatch.setattr(Ground, "down", lambda _: None)
    with ground():
        assert proxy_bypass_environment(LOOPBACK)
