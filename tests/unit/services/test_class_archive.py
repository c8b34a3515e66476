"""Rule: an archive of classes belongs to one java and one class path as they are now, and old ones go."""

import os

import pytest

from tidemark.services import class_archive
from tidemark.services.class_archive import KEPT, ClassArchive, folder, forget_oldest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    folder().mkdir(parents=True)


@pytest.fixture
def archive(tmp_path):
    for name in ("java", "a.jar", "lib/b.jar", "lib/c.jar"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    return ClassArchive(tmp_path / "java", [str(tmp_path / "a.jar"), str(tmp_path / "lib" / "*")])


@pytest.mark.parametrize("changed", ["java", "a.jar", "lib/c.jar"])
def test_another_java_or_jar_is_another_archive(archive, tmp_path, changed):
    before = archive.path
    assert archive.path == before
    os.utime(tmp_path / changed, (1, 1))
    assert archive.path != before


def test_a_jar_more_is_another_archive(archive, tmp_path):
    before = archive.path
    (tmp_path / "lib" / "d.jar").touch()
    assert archive.path != before
    assert ClassArchive(archive.java, archive.jars[:1]).path != archive.path


def test_it_is_used_once_it_is_there_and_not_empty(archive):
    assert archive.use() == []
    archive.path.touch()
    assert archive.use() == [], "this java cannot make one"
    archive.path.write_bytes(b"classes")
    assert archive.use() == [f"-XX:SharedArchiveFile={archive.path}"]


def test_the_newest_are_kept():
    for age in range(KEPT + 3):
        file = class_archive.folder() / f"{age}.jsa"
        file.touch()
        os.utime(file, (1_000_000 - age, 1_000_000 - age))
    forget_oldest()
    assert {file.stem for file in folder().iterdir()} == {str(age) for age in range(KEPT)}
