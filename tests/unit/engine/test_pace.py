"""Rule: a backfill that is bounded never goes faster on average, and one that is not bounded never waits."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tidemark.engine.operate.backfill import pace
from tidemark.engine.operate.backfill.pace import Pace


class Clock:
    """Time that passes by sleeping and by working."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now, self.slept = self.now + seconds, self.slept + seconds


@given(st.floats(0.1, 1e4), st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 5)), min_size=1))
def test_the_rate_is_kept_whatever_each_window_takes(rate, windows):
    clock, done, worked = Clock(), 0, 0.0
    began = clock.now
    with_clock = SimpleNamespace(sleep=clock.sleep, monotonic=clock.monotonic)
    real, pace.time = pace.time, with_clock
    try:
        for rows, seconds in windows:
            done, worked = done + rows, worked + seconds
            clock.now += seconds
            Pace(rate).keep(done, began)
            assert done <= rate * (clock.now - began) * (1 + 1e-9) + 1e-6
        assert clock.slept <= done / rate + 1e-6, "no longer than it must"
        slept = clock.slept
        Pace().keep(10**9, began)
        assert clock.slept == slept
    finally:
        pace.time = real
