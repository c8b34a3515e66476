import time
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.engine.table.lease import INGEST_FIRST, LEASE, STAND_BACK, _minutes, wanted_by_ingest


@pytest.mark.parametrize(("ago", "at_least"), [(0, 60), (3600, 120), (-1800, 30), (-7200, 1)])
def test_a_lease_lasts_an_hour_from_now_and_its_tag_a_minute_whatever_the_head_says(ago, at_least):
    """Given a head that another machine has dated, hours ahead even, then Iceberg takes the retention."""
    assert at_least <= _minutes(time.time() - ago) <= at_least + 1
    assert timedelta(hours=1) == LEASE


@pytest.mark.parametrize(
    ("left", "stands_back"),
    [(timedelta(minutes=-1), False), (STAND_BACK, True), (timedelta(hours=5), False)],
)
def test_maintenance_stands_back_for_as_long_as_an_ingest_may_ask(left, stands_back):
    """Given an ingest whose clock was hours ahead, then its table is maintained all the same."""
    until = (datetime.now(UTC) + left).isoformat(timespec="seconds")
    assert bool(wanted_by_ingest({INGEST_FIRST: until})) is stands_back
    assert wanted_by_ingest({}) is None
