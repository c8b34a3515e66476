"""Places on the commit path where a drill may stop the process: inert unless TIDEMARK_PAUSE_AT names any.

The process writes its pid to TIDEMARK_PAUSE_FILE and waits there, so that a drill kills a real process at a
known line. When the drill removes the file instead, the process goes on, and pauses again only at another point
of the comma-separated list.
"""

import os
import time
from pathlib import Path
from typing import Literal

PausePoint = Literal[
    "creating",
    "evolving",
    "altering",
    "altered",
    "renaming",
    "renamed",
    "planned",
    "branched",
    "remembered",
    "merged",
    "staged",
    "audited",
    "receipted",
    "quarantined",
    "publishing",
    "published",
    "forwarded",
    "tagged",
    "dropped",
    "settling",
    "settled",
    "dropping",
    "compaction_planned",
    "compacted",
    "manifests_rewritten",
    "expiry_planned",
    "retention_aside",
    "expired",
    "orphans_listed",
    "retention_noted",
    "retention_staged",
    "retention_deleted",
    "unrecorded",
]
POLL_SECONDS = 0.05


def pause_point(point: PausePoint) -> None:
    """Wait at `point` when TIDEMARK_PAUSE_AT names it, the first time it is reached."""
    ahead = os.environ.get("TIDEMARK_PAUSE_AT", "").split(",")
    if point not in ahead:
        return
    os.environ["TIDEMARK_PAUSE_AT"] = ",".join(each for each in ahead if each != point)
    marker = Path(os.environ["TIDEMARK_PAUSE_FILE"])
    aside = marker.with_suffix(".new")
    aside.write_text(str(os.getpid()), encoding="utf-8")
    aside.replace(marker)
    while marker.exists():
        time.sleep(POLL_SECONDS)
