import shlex
import sys
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jdk.client import AdoptiumClient

from tidemark.services import java
from tidemark.services.errors import DownloadFailed, JavaMissing
from tidemark.services.spark import jars_beside


@pytest.fixture
def fake_java(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(folder, version):
        executable = tmp_path / folder / "bin" / "java"
        executable.parent.mkdir(parents=True)
        executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        executable.chmod(0o755)
        return executable

    return make


def test_java_home_wins(fake_java, monkeypatch):
    chosen, on_path = fake_java("chosen", "21.0.2"), fake_java("path", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(chosen.parents[1]))
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert java.find_java() == chosen


def test_a_java_home_that_is_too_old_gives_way_to_the_path(fake_java, monkeypatch):
    old, on_path = fake_java("old", "1.8.0_402"), fake_java("path", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert java.find_java() == on_path


def test_the_java_that_we_fetched_comes_before_an_old_one_on_the_path(fake_java, monkeypatch):
    own, old = fake_java("cache/java/jdk-21", "21.0.4"), fake_java("path", "11.0.1")
    monkeypatch.setenv("PATH", str(old.parent))
    assert java.find_java() == own


def test_one_message_says_what_was_found_and_how_to_get_one(fake_java, monkeypatch):
    monkeypatch.setenv("PATH", str(fake_java("path", "11.0.1").parent))
    with pytest.raises(JavaMissing, match=r"Java 17 or newer was not found \(.* is Java 11\)") as caught:
        java.find_java()
    for way in ("apt install default-jre-headless", "JAVA_HOME", "tidemark services install-java"):
        assert way in caught.value.next_step


def test_make_names_a_command_that_is_there(fake_java, capsys):
    """Given a machine without Java, then what `make` says names the command of this environment."""
    own = Path(sys.executable).with_name("tidemark")
    assert own.exists()
    with pytest.raises(SystemExit) as ended:
        java.main()
    assert ended.value.code == 2
    assert f"fetch one for itself: {shlex.quote(str(own))} services install-java" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "needed"), [("17.0.15", ()), ("22.0.2", ()), ("23", ("hadoop",)), ("25.0.3", ("hadoop",))]
)
def test_a_java_that_pysparks_hadoop_does_not_know_gets_a_newer_one(fake_java, version, needed):
    assert jars_beside(fake_java("any", version)) == needed


def test_a_java_that_cannot_be_fetched_is_said(fake_java, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with pytest.raises(DownloadFailed, match="could not be fetched"):
        java.install_java()


def test_a_java_is_fetched_into_a_cache_that_was_not_there(fake_java, monkeypatch, tmp_path):
    """Given a machine where nothing was ever fetched, when a Java is, then it lies in the cache and is found."""
    made, served = fake_java("jdk-21", "21.0.4"), tmp_path / "served"
    served.mkdir()
    with tarfile.open(served / "jdk.tar.gz", "w:gz") as archive:
        archive.add(made.parents[1], "jdk-21")
    handler = partial(SimpleHTTPRequestHandler, directory=served)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as adoptium:
        threading.Thread(target=adoptium.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{adoptium.server_port}/jdk.tar.gz"
        monkeypatch.setattr(AdoptiumClient, "get_download_url", lambda *_: url)
        assert java.install_java() == tmp_path / "cache" / "java" / "jdk-21" / "bin" / "java"
        adoptium.shutdown()


def test_a_cache_that_takes_nothing_is_said_before_anything_is_fetched(monkeypatch):
    monkeypatch.setenv("TIDEMARK_CACHE", "/sys/tidemark")
    monkeypatch.setattr(AdoptiumClient, "get_download_url", lambda *_: pytest.fail("asked"))
    with pytest.raises(OSError, match="/sys/tidemark"):
        java.install_java()
