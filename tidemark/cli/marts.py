"""`python -m tidemark.cli.marts`: writes `dbt_project/assets.json`, from which the marts' definitions are made."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.domain.lineage.marts import FILE
from tidemark.engine.marts import digest_of, project_folder


def parse(folder: Path, target: Path) -> Mapping[str, Any]:
    """Dbt's manifest of a project. Needs no connection. Raises CalledProcessError with what dbt said."""
    dbt = Path(sys.executable).with_name("dbt")
    subprocess.run(
        [dbt, "--quiet", "parse", "--project-dir", folder, "--profiles-dir", folder],
        env={**os.environ, "DBT_TARGET_PATH": str(target), "DBT_LOG_PATH": str(target / "logs")},
        check=True,
    )
    return dict(json.loads((target / "manifest.json").read_text(encoding="utf-8")))


def text_of(folder: Path) -> str:
    """What `assets.json` must say."""
    from assets.marts.translator import described  # noqa: PLC0415 - imports dbt

    with tempfile.TemporaryDirectory() as scratch:
        return described(parse(folder, Path(scratch)), digest_of(folder)).model_dump_json(indent=1) + "\n"


if __name__ == "__main__":
    (project_folder() / FILE).write_text(text_of(project_folder()), encoding="utf-8")
