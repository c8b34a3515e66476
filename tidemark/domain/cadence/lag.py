"""When a table is due. Pure: the clock and what was seen come in as values.

`Sighting.at` is Tidemark's own clock when end offsets were seen; the first beyond the ledger decides, record timestamps
never do (docs/concepts.md, Two clocks).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.domain.ledger.offsets import Offsets, total, waiting

DUE_SHARE = 0.95
"""A table is due at this share of its target lag, so that the commit itself fits into the rest."""
COMMIT_TIME = timedelta(seconds=1.5)
"""Least time kept for the commit if the target allows: its duration when many tables share two cores."""
LEAST_SHARE = 0.25
"""A table is not due before this share of its target lag, however short that is: each commit makes a file."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """End offsets as they were at one moment of our clock."""

    at: datetime
    end: Offsets


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a table is behind: offsets waiting, and the age of the oldest of them by our clock."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DueVerdict:
    """Whether a table is due, and the reason as the UI shows it."""

    due: bool
    reason: str


def of_this_topic(sightings: Sequence[Sighting], end: Offsets) -> list[Sighting]:
    """Ends beyond those of now were another topic's: it was made anew since."""
    return [seen for seen in sightings if not waiting(end, seen.end)]


def measure(committed: Offsets, end: Offsets, sightings: Sequence[Sighting], now: datetime) -> Lag:
    """The lag of a table whose topic was seen growing as `sightings` (oldest first) say."""
    records = total(waiting(committed, end))
    if not records:
        return Lag(0, 0.0)
    for seen in of_this_topic(sightings, end):
        if waiting(committed, seen.end):
            return Lag(records, max(0.0, (now - seen.at).total_seconds()))
    return Lag(records, 0.0)


def prune(sightings: list[Sighting], committed: Offsets, keep: int = 60) -> list[Sighting]:
    """Forget what is published, and thin the rest to `keep` without losing the oldest."""
    open_ones = [seen for seen in sightings if waiting(committed, seen.end)]
    while len(open_ones) > keep:
        open_ones = (
            open_ones[:1] + open_ones[2::2] if len(open_ones) > 2 * keep else open_ones[:1] + open_ones[2:]
        )
    return open_ones


def due_verdict(
    lag: Lag, *, target_lag: timedelta, max_records: int, head_start: timedelta = timedelta(0)
) -> DueVerdict:
    """Due when a full batch waits, or when the oldest waiting record nears the target lag.

    `head_start` is what it takes from the decision to the commit (starting a run, if one must be started).
    """
    if lag.records == 0:
        return DueVerdict(due=False, reason="caught up")
    if lag.records >= max_records:
        return DueVerdict(due=True, reason=f"a full batch waits: {lag.records:,} records")
    wait = min(target_lag * DUE_SHARE, max(target_lag - COMMIT_TIME, target_lag * LEAST_SHARE))
    bound = max(0.0, (wait - head_start).total_seconds())
    if lag.seconds >= bound:
        return DueVerdict(
            due=True, reason=f"{lag.records:,} records wait, the oldest for {lag.seconds:.0f} s"
        )
    return DueVerdict(due=False, reason=f"{lag.records:,} records wait, due in {bound - lag.seconds:.0f} s")
