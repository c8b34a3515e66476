"""Rule: of a record without a row Kafka's own is shown where there is one."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.engine.verify import fates
from tidemark.engine.verify.peek import Peek


@pytest.mark.parametrize("seen", ["record", "tombstone", "gone", "hole", "aborted", "unanswered"])
def test_time_and_key_are_told_of_a_committed_record_and_of_nothing_else(
    seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an offset that was read and left no row, when Kafka has a record or a tombstone there, then its
    key may tell why."""
    monkeypatch.setattr(fates, "peek", lambda *_: Peek(seen, b"k1", None, 0))
    monkeypatch.setattr(fates, "_publisher", lambda *_: None)
    monkeypatch.setattr(fates, "others_since", lambda *_: [])
    lake: Any = SimpleNamespace(platform=SimpleNamespace(kafka={"main": None}))
    table: Any = SimpleNamespace(
        contract=SimpleNamespace(cluster="main"),
        ledger=None,
        metadata=None,
        topic=None,
        state=SimpleNamespace(head=1, properties={}),
    )
    found = fates.silent(lake, table, fates.Answer("s.t", "t", 0, 5, "not_yet"), [], 0)
    shown = {"timestamp": "1970-01-01T00:00:00+00:00", "key": "k1"}
    assert found.facts.get("record") == (shown if seen in {"record", "tombstone"} else None)
