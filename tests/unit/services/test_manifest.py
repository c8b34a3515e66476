import re
from pathlib import Path
from typing import get_args

import pytest

from tidemark.services.manifest import (
    CORE,
    MAVEN_CENTRAL,
    Artifact,
    ArtifactSet,
    artifacts,
    cache_dir,
    cached,
    classpath,
    maven_url,
)

ALL = get_args(ArtifactSet)


@pytest.mark.parametrize("name", ALL)
def test_every_artifact_is_pinned_by_digest_and_size(name):
    for artifact in artifacts(name):
        assert re.fullmatch(r"[0-9a-f]{64}", artifact.sha256), artifact.filename
        assert artifact.size > 0
        assert "SNAPSHOT" not in artifact.version


def test_a_set_holds_each_artifact_in_one_version_only():
    for name in ALL:
        names = [(artifact.group, artifact.name) for artifact in artifacts(name)]
        assert len(names) == len(set(names))


def test_the_demo_does_not_pay_for_the_cloud_bundles():
    core = {artifact.name for name in CORE for artifact in artifacts(name)}
    assert "iceberg-aws-bundle" not in core
    assert "postgresql" not in core
    assert "hadoop-client-runtime" not in core, "for new Javas alone"


def test_an_artifact_lies_where_maven_would_put_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path))
    artifact = Artifact("org.a.b", "thing", "1.2", "0" * 64, 1, "tar.gz", "all")
    assert cached(artifact) == tmp_path / "maven/org/a/b/thing/1.2/thing-1.2-all.tar.gz"
    assert all(Path(jar).is_relative_to(tmp_path) for jar in classpath("spark"))


def test_the_cache_is_per_user_unless_named(monkeypatch):
    monkeypatch.delenv("TIDEMARK_CACHE", raising=False)
    assert cache_dir().name == "tidemark"


@pytest.mark.parametrize(
    ("said", "url"), [("", MAVEN_CENTRAL), ("http://mirror/maven2/", "http://mirror/maven2")]
)
def test_a_mirror_that_is_named_by_nothing_is_none(monkeypatch, said, url):
    monkeypatch.setenv("TIDEMARK_MAVEN_URL", said)
    assert maven_url() == url
