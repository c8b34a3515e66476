import socket

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
    without_proxy(everything := {"no_proxy": "*"})
    assert everything == {"no_proxy": "*"}
