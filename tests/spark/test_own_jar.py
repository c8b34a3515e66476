"""Tidemark's classes are compiled from what is in the package, once."""

import zipfile
from pathlib import Path

import pytest

from tidemark.services import own_jar as module
from tidemark.services.download import fetch
from tidemark.services.errors import ServiceFailed
from tidemark.services.java import find_java
from tidemark.services.own_jar import own_jar


def test_the_jar_has_the_classes_that_the_server_is_told_of() -> None:
    """Asked for again it is the same one, whose time of making is a part of the class archive's name."""
    fetch(("spark", "compiler"))
    jar = own_jar(find_java())
    made = jar.stat().st_mtime_ns
    with zipfile.ZipFile(jar) as packed:
        names = set(packed.namelist())
    assert {"tidemark/spark/TidemarkPlugin.class", "tidemark/spark/TidemarkExtensions.class"} <= names
    assert own_jar(find_java()) == jar
    assert jar.stat().st_mtime_ns == made


def test_a_class_that_does_not_compile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler's words and where to read them all; nothing is left that could pass for a jar."""
    (tmp_path / "Broken.java").write_text("class Broken { int nothing() { return missing; } }")
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    fetch(("spark", "compiler"))
    with pytest.raises(ServiceFailed, match="missing cannot be resolved") as failed:
        own_jar(find_java())
    log = Path(failed.value.fields["log"])
    assert log.exists()
    assert not log.with_suffix(".jar").exists()
    log.unlink()
