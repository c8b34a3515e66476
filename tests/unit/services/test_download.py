"""Downloads against a real local web server that can cut lines, lie and count."""

import fcntl
import hashlib
import io
import tarfile
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waiting import until

from tidemark.services import download, manifest
from tidemark.services.errors import DownloadFailed
from tidemark.services.manifest import Artifact, cached

BODY = bytes(range(256)) * 4096


class Server(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies = {}
        self.requests = []
        self.cut_first = False
        self.fail_first = 0
        self.slowly = None
        self.after = {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.server.requests.append((self.path, begin))
        body = self.server.bodies.get(self.path)
        if first := self.server.after.get(self.path):
            until(lambda: first.exists() and first.stat().st_size, "another download to begin")
        if self.server.fail_first > 0 or body is None:
            self.server.fail_first -= 1
            self.send_error(503)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        cut, self.server.cut_first = self.server.cut_first, False
        rest = body[begin : begin + len(body) // 2] if cut else body[begin:]
        pieces = range(0, len(rest), 1 << 15) if self.path == self.server.slowly else ()
        with suppress(BrokenPipeError):
            for piece in pieces:
                self.wfile.write(rest[piece : piece + (1 << 15)])
                time.sleep(0.1)
        self.wfile.write(b"" if pieces else rest)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def maven(monkeypatch, tmp_path):
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("TIDEMARK_MAVEN_URL", f"http://127.0.0.1:{server.server_port}/maven2/")
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path))
    monkeypatch.setattr(download, "SHORTEST_WAIT", 0.01)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def publish(maven, monkeypatch):
    published = []

    def add(name, body, *, extension="jar", sha256=None):
        digest = sha256 or hashlib.sha256(body).hexdigest()
        artifact = Artifact("g", name, "1", digest, len(body), extension)
        maven.bodies[f"/maven2/{artifact.path}"] = body
        published.append(artifact)
        return artifact

    monkeypatch.setattr(download, "artifacts", lambda _name: tuple(published))
    return add


def test_fetched_once_then_offline(maven, publish):
    artifacts = [publish(f"a{number}", BODY + bytes([number])) for number in range(8)]
    events = []
    download.fetch(["spark"], events.append)
    assert [cached(each).read_bytes() for each in artifacts] == [BODY + bytes([n]) for n in range(8)]
    assert events[0].total == sum(each.size for each in artifacts)
    assert (events[-1].done, events[-1].finished) == (events[-1].total, True)
    maven.requests.clear()
    download.fetch(["spark"])
    assert maven.requests == []


def test_a_line_that_is_cut_goes_on_where_it_stopped(maven, publish):
    artifact = publish("a", BODY)
    maven.cut_first = True
    events = []
    download.fetch(["spark"], events.append)
    assert cached(artifact).read_bytes() == BODY
    assert maven.requests[0][1] == 0
    assert maven.requests[-1][1] > 0
    assert events[-1].done == artifact.size


def test_a_partial_file_of_an_earlier_run_is_resumed(maven, publish):
    artifact = publish("a", BODY)
    part = cached(artifact).with_name(cached(artifact).name + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY[:1000])
    download.fetch(["spark"])
    assert cached(artifact).read_bytes() == BODY
    assert maven.requests == [(f"/maven2/{artifact.path}", 1000)]


def test_rubbish_in_a_partial_file_is_noticed_and_fetched_anew(maven, publish):
    artifact = publish("a", BODY)
    part = cached(artifact).with_name(cached(artifact).name + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * len(BODY))
    download.fetch(["spark"])
    assert cached(artifact).read_bytes() == BODY


def test_a_server_that_stumbles_is_asked_again(maven, publish):
    artifact = publish("a", BODY)
    maven.fail_first = 2
    download.fetch(["spark"])
    assert cached(artifact).exists()


def test_wrong_bytes_never_appear_under_the_final_name(maven, publish):
    artifact = publish("a", BODY, sha256="0" * 64)
    with pytest.raises(DownloadFailed, match="not the pinned ones"):
        download.fetch(["spark"])
    assert not cached(artifact).exists()


def test_a_missing_file_names_the_mirror_setting(maven, publish):
    publish("a", BODY)
    maven.bodies.clear()
    with pytest.raises(DownloadFailed, match="TIDEMARK_MAVEN_URL"):
        download.fetch(["spark"])


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:1080/", "gopher://127.0.0.1"])
def test_a_proxy_that_cannot_be_used_is_named(maven, publish, monkeypatch, proxy):
    publish("spark", b"a jar")
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(DownloadFailed, match="proxy"):
        download.fetch(["spark"])


def test_an_archive_is_unpacked_once_and_not_kept(maven, publish):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("lib/a.jar")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    archive = publish("app", packed.getvalue(), extension="tar.gz")
    download.fetch(["registry"])
    assert (download.unpacked(archive) / "lib/a.jar").read_bytes() == b"abc"
    assert not cached(archive).exists()
    download.fetch(["registry"])
    assert not cached(archive).exists(), "nothing is fetched again"


def test_two_that_fetch_at_once_fetch_once(maven, publish):
    publish("a", BODY)
    threads = [threading.Thread(target=download.fetch, args=(["spark"],)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(maven.requests) == 1
    assert manifest.maven_url().endswith("/maven2")


def test_who_waits_for_the_downloads_of_another_says_so(maven, publish, tmp_path):
    artifact, said, waits = publish("a", BODY), [], threading.Event()

    def show(event):
        said.append(event.text)
        waits.set()

    with (tmp_path / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=download.fetch, args=(["spark"], show))
        thread.start()
        assert waits.wait(10)
        assert said == ["another process fetches, waiting for it"]
    thread.join()
    assert said[1] == "our turn"
    assert cached(artifact).exists()


def test_a_download_that_is_given_up_goes_on_where_it_was_the_next_time(maven, publish, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    slow = publish("a", BODY)
    other = publish("b", BODY, sha256="0" * 64)
    path, part = f"/maven2/{slow.path}", cached(slow).with_name(f"{cached(slow).name}.part")
    maven.slowly, maven.after = path, {f"/maven2/{other.path}": part}
    with pytest.raises(DownloadFailed):
        download.fetch(["spark"])
    assert [asked for asked, _ in maven.requests].count(path) == 1
    had = part.stat().st_size
    assert 0 < had < len(BODY)
    maven.requests.clear()
    maven.slowly = None
    download.fetch_artifacts([slow])
    assert maven.requests == [(path, had)]
    assert cached(slow).read_bytes() == BODY
    assert not cached(other).exists()
