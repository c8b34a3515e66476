"""The verb `drill`: scenarios one after the other on one scratch table, and a scorecard of how long each took."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from tidemark.domain.errors import Refused, TidemarkError
from tidemark.domain.suggest import nearest
from tidemark.engine.access.lake import Lake
from tidemark.engine.drill.scenarios import SCENARIOS, Drill, Missed, NotHere
from tidemark.engine.drill.scratch import Scratch, scratch
from tidemark.engine.table.operations import Operation, Signature, log_operation


@dataclass(frozen=True, slots=True)
class Score:
    """How a scenario went. Seconds count from the fault: until Tidemark named it `noticed_as`, until all was whole."""

    scenario: str
    passed: bool
    noticed_as: str = ""
    detected_seconds: float | None = None
    recovered_seconds: float | None = None
    detail: str = ""
    skipped: bool = False


def drill(
    lake: Lake,
    names: Sequence[str],
    cluster: str,
    signature: Signature,
    say: Callable[[str], None] = lambda _: None,
) -> Operation:
    """Rehearse the scenarios of these names, all when there are none; `arguments` of the operation is the scorecard.

    Raises:
        Refused: there is no such scenario or cluster.
        Outage: the scratch cannot be made.
    """
    wanted = _known(names)
    lake.kafka(cluster)
    began = time.perf_counter()
    if signature.dry_run:
        told = {"scenarios": [{"scenario": n, "does": (SCENARIOS[n].__doc__ or "").strip()} for n in wanted]}
        return log_operation(lake, signature, "drill", "", told)
    scores: list[Score] = []
    with scratch(lake.platform, cluster) as made:
        made.send(1)
        Drill(made, signature).run()
        for name in wanted:
            scores.append(_rehearsed(name, made, signature))
            say(f"{name}: {_word(scores[-1])}")
        table = made.contract.table
    return log_operation(
        lake,
        signature,
        "drill",
        table,
        {
            "passed": all(each.passed or each.skipped for each in scores),
            "topic": made.topic,
            "table": table,
            "seconds": round(time.perf_counter() - began, 1),
            "scenarios": [asdict(each) for each in scores],
        },
    )


def _rehearsed(name: str, made: Scratch, signature: Signature) -> Score:
    work = Drill(made, signature)
    try:
        SCENARIOS[name](work)
    except NotHere as lacking:
        return Score(name, passed=False, skipped=True, detail=str(lacking))
    except (Missed, TidemarkError) as error:
        return _score(name, work, passed=False, detail=str(error))
    except Exception as error:  # noqa: BLE001 - one scenario must not hide the others
        return _score(name, work, passed=False, detail=f"{type(error).__name__}: {error}"[:500])
    finally:
        _cleared(work)
    return _score(name, work, passed=True)


def _cleared(work: Drill) -> None:
    """Each scenario begins with a table that has caught up."""
    with suppress(Exception):
        work.run()


def _score(name: str, work: Drill, *, passed: bool, detail: str = "") -> Score:
    found, whole = work.noticed_after, work.mended_after
    return Score(
        name,
        passed,
        work.noticed_as,
        None if found is None else round(found, 2),
        None if whole is None else round(whole, 2),
        detail,
    )


def _word(score: Score) -> str:
    return "skipped" if score.skipped else "passed" if score.passed else f"failed: {score.detail}"


def _known(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in SCENARIOS:
            near = nearest(name, list(SCENARIOS))
            raise Refused(
                f"there is no scenario {name}",
                next_step=f"did you mean {near}?" if near else f"one of {', '.join(SCENARIOS)}",
            )
    return list(names) or list(SCENARIOS)
