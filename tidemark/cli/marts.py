"""`python -m tidemark.cli.marts`: writes `dbt_project/assets.json`, from which the marts' definitions are made."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.domain.errors import Refused
from tidemark.domain.lineage.marts import FILE, Project
from tidemark.engine.marts import digest_of, project_folder
from tidemark.engine.whole_file import replace_whole


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
    """What `assets.json` must say. Raises Refused: the project does not fit the platform."""
    return _read(folder)[0].model_dump_json(indent=1) + "\n"


def _read(folder: Path) -> tuple[Project, list[str]]:
    from assets.marts.translator import described, unchecked  # noqa: PLC0415 - imports dbt

    with tempfile.TemporaryDirectory() as scratch:
        manifest = parse(folder, Path(scratch))
    project = described(manifest, digest_of(folder))
    return project, unchecked(manifest, project)


def main() -> int:
    """Write the file; names tests that never run. 1 where the project does not fit the platform."""
    folder = project_folder()
    try:
        project, silent = _read(folder)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    replace_whole(folder / FILE, project.model_dump_json(indent=1) + "\n")
    for each in silent:
        sys.stderr.write(f"warning: {each}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
