"""Where the dbt project lies, and what its committed description says."""

import hashlib
import logging
from contextlib import suppress
from pathlib import Path

import tidemark
from tidemark.domain.errors import Problem
from tidemark.domain.lineage.marts import FILE, Project

FOLDER = "dbt_project"
DESCRIBE = "python -m tidemark.cli.marts"
_WRITTEN = frozenset({FILE, "target", "logs", "dbt_internal_packages"})
"""What Tidemark and dbt write there themselves. Hidden files, as of editors, are none of the project's."""


def project_folder() -> Path:
    """`dbt_project/` beside the package, as it is in a clone and in an installed wheel."""
    return Path(tidemark.__file__).parent.parent / FOLDER


def read_project() -> Project | None:
    """What `assets.json` says; None where there is no project, or none that can be read: no table needs the marts."""
    with suppress(ValueError):
        return _read()
    logging.getLogger(__name__).warning("the marts are left out: %s", project_fault())
    return None


def project_fault() -> Problem | None:
    """That the project's files are not those which `assets.json` describes: marts would be missing, or not be made."""
    with suppress(ValueError):
        project = _read()
        if project is None or project.digest == digest_of(project_folder()):
            return None
    return Problem(
        str(project_folder() / FILE),
        None,
        "digest",
        f"does not describe the project as it is: {DESCRIBE} writes it anew",
    )


def _read() -> Project | None:
    """Raises ValueError: it is torn, or as another Tidemark writes it."""
    file = project_folder() / FILE
    return Project.from_json(file.read_text(encoding="utf-8")) if file.is_file() else None


def digest_of(folder: Path) -> str:
    """16 hex digits over all files that dbt may read but hidden ones: seeds, snapshots and installed packages too."""
    whole = hashlib.sha256()
    for part in sorted(
        each for each in folder.iterdir() if each.name not in _WRITTEN and each.name[0] != "."
    ):
        for file in sorted([part, *part.rglob("*")]):
            named = file.relative_to(folder)
            if file.is_file() and not any(each.startswith(".") for each in named.parts):
                whole.update(f"{named}\n".encode() + file.read_bytes() + b"\0")
    return whole.hexdigest()[:16]
