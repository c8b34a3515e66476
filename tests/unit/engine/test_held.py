"""Rule: what is accepted is the batch that was held back, at the stand of the ledger that it was held back at."""

from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.table_state import ACCEPTED_BATCH, HELD_BATCH, TableState
from tidemark.engine.ingest.held import accepted_batch, held_batch, spelled

BATCH = {0: OffsetRange(100, 140), 3: OffsetRange(0, 9)}


def state(name: str, text: str, **stand: int) -> TableState:
    ledger = Ledger(
        cluster_id="c",
        topic_id="t",
        topic="orders",
        epoch=stand.pop("epoch", 2),
        next={int(k[1:]): v for k, v in stand.items()},
    )
    return TableState("shop.orders", exists=True, ledger=ledger, properties={name: text})


def test_a_batch_is_read_back_as_it_was_noted() -> None:
    text = spelled(BATCH, 2)
    assert text == "epoch 2,0:100-140,3:0-9"
    assert held_batch(state(HELD_BATCH, text, p0=100)) == BATCH
    assert accepted_batch(state(ACCEPTED_BATCH, text, p0=100, p1=7)) == BATCH
    assert accepted_batch(state(HELD_BATCH, text, p0=100)) is None


def test_once_the_ledger_has_moved_the_note_says_nothing() -> None:
    for stand in ({"p0": 140}, {"p0": 100, "p3": 1}, {"p0": 99}, {"p0": 100, "epoch": 3}):
        assert held_batch(state(HELD_BATCH, spelled(BATCH, 2), **stand)) is None
    assert held_batch(state(HELD_BATCH, "", p0=100)) is None
    assert (
        held_batch(TableState("shop.orders", exists=False, properties={HELD_BATCH: spelled(BATCH, 2)}))
        is None
    )
