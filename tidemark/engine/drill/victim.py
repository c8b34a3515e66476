"""A process that publishes a batch of the scratch table and stops between stage and publish, to be killed there."""

import os
from pathlib import Path

from tidemark.domain.config.configuration import Configuration
from tidemark.engine.access.lake import Lake
from tidemark.engine.ingest.microbatch import microbatch


def stand_still(configuration: Configuration, marker: str, run_id: str) -> None:
    """Stage the next batch with its receipt, write the marker file, and wait for the end."""
    os.environ["TIDEMARK_PAUSE_AT"] = "publishing"
    os.environ["TIDEMARK_PAUSE_FILE"] = marker
    Path(marker).unlink(missing_ok=True)
    microbatch(Lake(configuration), configuration.contracts[0], run_id)
