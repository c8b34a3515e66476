"""Durations and sizes read back what they print."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tidemark.domain.config.units import (
    Duration,
    PositiveDuration,
    Size,
    counted,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


class Said(BaseModel):
    span: Duration | None = None
    wait: PositiveDuration | None = None
    size: Size | None = None


def refusal(**said: object) -> dict[str, object]:
    with pytest.raises(ValidationError) as caught:
        Said(**said)
    [error] = caught.value.errors()
    return {"msg": error["msg"], "suggestion": error.get("ctx", {}).get("suggestion")}


@given(st.integers(0, 36_500 * 86_400_000))
def test_every_whole_millisecond_survives_a_round_trip(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(span)) == span


@given(st.integers(0, 2**60))
def test_every_size_survives_a_round_trip(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=12))
def test_any_text_is_either_a_duration_or_refused(text: str) -> None:
    try:
        span = Said(span=text).span
    except ValidationError:
        return
    assert span is not None
    assert timedelta(0) <= span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("5s", timedelta(seconds=5)),
        ("1m", timedelta(minutes=1)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("500ms", timedelta(milliseconds=500)),
        ("1h30m", timedelta(minutes=90)),
        ("1m500ms", timedelta(minutes=1, milliseconds=500)),
    ],
)
def test_durations_are_read(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (60, "60s"),
        ("5 s", "5s"),
        ("5sec", "5s"),
        ("2 minutes", "2m"),
        ("1M", "1m"),
        ("3 Days", "3d"),
        ("2w", "14d"),
        ("5x", None),
        ("", None),
        ("1m1h", None),
        ("-5s", None),
        (True, None),
    ],
)
def test_what_is_no_duration_is_refused_with_what_was_meant(written: object, meant: str | None) -> None:
    found = refusal(span=written)
    assert "is not a duration" in str(found["msg"])
    assert found["suggestion"] == meant


def test_a_wait_of_nothing_is_refused() -> None:
    assert refusal(wait="0s")["msg"] == "must be more than nothing"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1),
        ("64kB", 65_536),
        ("256MB", 268_435_456),
        ("256MiB", 268_435_456),
        ("20GB", 20 * 2**30),
        (7, 7),
    ],
)
def test_sizes_are_binary(text: object, size: int) -> None:
    assert parse_size(text) == size


def test_counts_are_words_that_people_say() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("256M", "256MB"), ("256mb", "256MB"), ("64 kb", "64kB"), ("x", None), (True, None)],
)
def test_what_is_no_size_is_refused_with_what_was_meant(written: object, meant: str | None) -> None:
    found = refusal(size=written)
    assert "is not a size" in str(found["msg"])
    assert found["suggestion"] == meant


@pytest.mark.parametrize("written", ["8388608TB", "9" * 5000 + "B", 2**63])
def test_a_size_is_what_a_long_holds(written: object) -> None:
    """Given a size beyond 2^63 - 1 bytes, which neither Spark nor a table property takes, then it is refused."""
    assert "of at most 9223372036854775807 B" in str(refusal(size=written)["msg"])
    assert parse_size("8388607TB") < parse_size("9223372036854775807B") == 2**63 - 1
