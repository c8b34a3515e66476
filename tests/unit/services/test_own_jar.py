"""Rule: Spark's jars are those of the release that Tidemark is made for, or it is said why they are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.services.own_jar import pyspark_home


def test_they_come_with_pyspark() -> None:
    assert (pyspark_home() / "jars").is_dir()


@pytest.mark.parametrize("jars", [[], ["spark-core_2.12-3.5.1.jar"]])
def test_the_python_of_another_spark_is_named(tmp_path: Path, jars: list[str]) -> None:
    """Given a PYTHONPATH that names a Spark of one's own, as with SPARK_HOME, or an environment with another release, then that is said, and not that Tidemark's classes do not compile."""
    foreign = tmp_path / "python" / "pyspark"
    (foreign / "jars").mkdir(parents=True)
    for each in ("__init__.py", *(f"jars/{jar}" for jar in jars)):
        (foreign / each).touch()
    path = os.pathsep.join([str(foreign.parent), str(Path(__file__).parents[3])])
    told = subprocess.run(
        [sys.executable, "-c", "from tidemark.services.own_jar import pyspark_home; pyspark_home()"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"ServiceError: Python takes pyspark from {foreign}" in told.stderr
    assert "Next: unset PYTHONPATH" in told.stderr
