"""Commits that another writer of the same table overtook: how they are known, and repeated where nothing contradicts.

What asserts a head (`publish`) is never repeated alone: whoever lost that plans again, as in `until_not_overtaken`.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Refused
from tidemark.engine.access.outages import LOST_RACE, says, translated

ATTEMPTS = 6
"""Times that a batch, a merge or a replay is planned before it gives up; a batch counts anew where others moved on."""
TURNS = 10
WAIT = 0.5
"""Seconds at most before a change is repeated that lost against another commit."""

_HEAD_MOVED = ("ValidationException", "CommitFailedException", "not an ancestor", "is not fast-forwardable")
_T = TypeVar("_T")


def _lost_race(error: BaseException) -> bool:
    """Whether a catalog, Spark or PyIceberg says that somebody else's commit came between."""
    return says(error, LOST_RACE)


def was_overtaken(error: BaseException) -> bool:
    """Whether one of them says so of a commit that asserted what it was planned for: the plan is void."""
    return says(error, _HEAD_MOVED)


@contextmanager
def or_overtaken(table: str) -> Iterator[None]:
    """Raises Overtaken when what is done in here lost against another commit to `table`."""
    try:
        yield
    except Exception as error:
        if was_overtaken(error):
            raise Overtaken(table) from error
        raise


def stand_aside(turn: int) -> None:
    """Sleep a random time, up to 0.1 s doubled with each void plan, so that two runs do not stay in step."""
    time.sleep(random.uniform(0.0, 0.1 * 2**turn))  # noqa: S311 - no secret


def until_not_overtaken(contract: Contract, attempt: Callable[[], _T]) -> _T:
    """Try until nobody comes between; each attempt plans from the truth.

    Raises:
        Refused: it was overtaken too often.
    """
    last: Overtaken | None = None
    for turn in range(1, ATTEMPTS + 1):
        try:
            with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
                return attempt()
        except Overtaken as overtaken:
            last = overtaken
            stand_aside(turn)
    raise Refused(
        f"{contract.table} is being written to all the time: overtaken {ATTEMPTS} times. {last}",
        next_step=f"tidemark pause {contract.table}, repeat this, then tidemark resume {contract.table}",
        table=contract.table,
    ) from last


def repeated(change: Callable[[], _T]) -> _T:
    """`change`, which begins with a look at the table, until no other commit comes between."""
    return Retrying(
        retry=retry_if_exception(_lost_race),
        stop=stop_after_attempt(TURNS),
        wait=wait_random(0, WAIT),
        reraise=True,
    )(change)
