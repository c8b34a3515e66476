"""How fresh published data is, by two clocks: how far the stream is, and how far the table.

Lag is the age, by our own clock, of the oldest offset that is not published; record timestamps decide nothing, so a
record dated 2099 and a backlog of old ones change nothing. A quiet topic is fresh unless the contract has `silence`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.domain.cadence.lag import Lag
from tidemark.domain.config.contract import Freshness
from tidemark.domain.config.units import format_duration

Grade = Literal["fresh", "warn", "fail"]
GRADES: tuple[Grade, ...] = ("fresh", "warn", "fail")
Verdict = Literal["fresh", "nothing_new", "arrived_not_written", "written_not_published", "not_known"]
MEANS: Mapping[Verdict, str] = {
    "fresh": "records come and are published within the limits",
    "nothing_new": "everything that the topic holds is published",
    "arrived_not_written": "records lie in Kafka and nothing has staged them: look at the sensor, the run queue, "
    "the table's state",
    "written_not_published": "an attempt has staged records and they are not published: look at the run that works "
    "on the table, or at its blocking rules",
    "not_known": "how late the data is, nobody can tell",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Where the data is, how bad that is, and both in words."""

    verdict: Verdict
    grade: Grade
    why: str


def judge(lag: Lag, limits: Freshness, *, quiet: float | None, staged: bool) -> Judgement:
    """`quiet`: seconds since anything waited, None when not known; `staged`: an attempt's rows wait to be published."""
    if not lag.records:
        silence = limits.silence
        if silence is not None and quiet is not None and quiet > silence.total_seconds():
            allowed = format_duration(silence)
            return Judgement(
                "nothing_new", "fail", f"nothing came for {quiet:.0f} s; silence allows {allowed}"
            )
        verdict: Verdict = "fresh" if quiet is not None and grade(quiet, limits) == "fresh" else "nothing_new"
        return Judgement(verdict, "fresh", MEANS[verdict])
    found = grade(lag.seconds, limits)
    if found == "fresh":
        return Judgement("fresh", found, MEANS["fresh"])
    verdict = "written_not_published" if staged else "arrived_not_written"
    return Judgement(verdict, found, f"{MEANS[verdict]} (the oldest for {lag.seconds:.0f} s)")


def judge_unseen(outage: str, seconds: float, limits: Freshness) -> Judgement:
    """Of a table that could not be looked at for so long, or its topic: its data may be as late as that, or later."""
    return Judgement(
        "not_known",
        grade(seconds, limits),
        f"{outage} for {seconds:.0f} s: {MEANS['not_known']}",
    )


def judge_merge(records: int, seconds: float | None, limits: Freshness) -> Judgement:
    """Of an upsert table: `seconds` since the oldest append commit that is not merged, None when all are."""
    found = "fresh" if seconds is None else grade(seconds, limits)
    if seconds is None or found == "fresh":
        verdict: Verdict = "nothing_new" if seconds is None else "fresh"
        return Judgement(verdict, "fresh", "everything that the append table holds is merged in time")
    what = f"{records} offsets of the append table are" if records else "a replay or a rollback is"
    return Judgement(
        "arrived_not_written",
        found,
        f"{what} not merged (for {seconds:.0f} s): look at the upsert sensor and its runs",
    )


def of_paused(found: Judgement) -> Judgement:
    """Of a table that is paused: as late as any other, and somebody wanted that."""
    if found.grade == "fresh":
        return found
    return replace(found, why=f"the table is paused; {found.why}")


def grade(seconds: float, freshness: Freshness) -> Grade:
    """How `freshness.warn` and `freshness.fail` judge data that is so late."""
    if freshness.fail is not None and seconds > freshness.fail.total_seconds():
        return "fail"
    if freshness.warn is not None and seconds > freshness.warn.total_seconds():
        return "warn"
    return "fresh"
