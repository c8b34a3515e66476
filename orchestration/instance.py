"""Where Dagster keeps its own state: a folder under Tidemark's home, set up once."""

from importlib.resources import files
from pathlib import Path

from tidemark.domain.home import PRIVATE
from tidemark.engine.whole_file import replace_whole

FOLDER = "dagster"
SETTINGS = "dagster.yaml"


def prepare_dagster_home(home: Path) -> Path:
    """The DAGSTER_HOME of a Tidemark home, with our settings in it unless it has settings of its own.

    An empty file is none: Dagster would run with its defaults.
    """
    folder = home.absolute() / FOLDER
    folder.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    settings = folder / SETTINGS
    if not settings.exists() or not settings.stat().st_size:
        replace_whole(settings, files("orchestration").joinpath(SETTINGS).read_text("utf-8"))
    return folder
