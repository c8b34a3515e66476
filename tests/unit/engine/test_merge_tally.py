"""What a merge's write has counted on the way, and when that is not believed."""

from types import SimpleNamespace

import pytest

from tidemark.engine.merge.event import DELETE, NEW, UPSERT
from tidemark.engine.merge.tally import GROUPS, Tally, tally_from


def counts(**found):
    """Metrics as they arrive: no group has anything but those that are named."""
    nothing = {f"n_{name}": 0 for name in GROUPS} | {f"news_{name}": None for name in GROUPS}
    return {**nothing, **found}


ROWS, GONE = f"insert_{UPSERT}_{NEW}", f"none_{DELETE}_{NEW}"
WHOLE = counts(keys=7, **{f"n_{ROWS}": 5, f"news_{ROWS}": 9, f"n_{GONE}": 2, f"news_{GONE}": 3})


def test_rows_and_deletes_of_nothing_are_told_apart():
    found = tally_from(SimpleNamespace(get=WHOLE), events=12, rows=5)
    assert found == Tally(insert=5, inserted=5, absent=2, to_remember=2)


@pytest.mark.parametrize(
    ("get", "events", "rows"),
    [
        ({}, 12, 5),  # lost on their way
        (WHOLE, 12, 6),  # not what was written
        (WHOLE, 11, 5),  # not the events that were read
        ({**WHOLE, "keys": 8}, 12, 5),  # a winner that is none of the groups: a row was stored
        ({name: value and 2 * value for name, value in WHOLE.items()}, 12, 5),  # a task ran twice
    ],
)
def test_what_is_not_the_whole_is_not_believed(get, events, rows):
    assert tally_from(SimpleNamespace(get=get), events, rows) is None
