"""Rules of a mart that counts: what only adds rows it follows by itself; whatever takes rows back makes it stale."""

import pytest

from tidemark.domain.lineage.corrections import Step, correction


def chain(*steps):
    """Snapshots 1, 2, … given oldest first, as a table's chain: newest first."""
    made = [Step(n, *((each,) if isinstance(each, str) else each)) for n, each in enumerate(steps, 1)]
    return made[::-1]


BATCH = [("append", ""), ("append", "append")]


@pytest.mark.parametrize("since", [2, None])
def test_batches_compaction_and_replays_of_the_quarantine_only_add_rows(since):
    steps = chain(*BATCH, *BATCH, ("replace", ""), ("append", ""), ("append", "replay"))
    assert correction(steps, since, undone=False) is None


def test_what_was_undone_is_seen_by_its_receipt_and_by_the_snapshot_that_is_off_the_way():
    undone = chain(*BATCH, ("append", "rollback"))
    assert correction(undone, 7, undone=False) == "was rolled back", "7 was expired since"
    by_hand = chain(*BATCH)
    assert correction(by_hand, 7, undone=True) == "was rolled back"
    assert correction(undone, 3, undone=False) is None, "the mart was made anew since"


def test_rows_that_were_replaced_or_deleted_by_anyone_but_retention_count():
    """Given a delete, an overwrite and a replay of a range, then each counts; a delete without an operation, retention's, does not."""
    for operation in ("delete", "overwrite"):
        assert correction(chain(*BATCH, (operation, "")), 2, undone=False) == "had rows replaced or deleted"
    replay = chain(*BATCH, ("delete", ""), ("append", ""), ("append", "replay"))
    assert correction(replay, 2, undone=False) == "had rows replaced or deleted"
    assert correction(chain(*BATCH, ("", ""), *BATCH), 2, undone=False) is None


def test_an_upsert_table_is_corrected_when_its_history_was_undone():
    merges = chain(("overwrite", ""), ("append", "merge"), ("overwrite", ""), ("append", "merge"))
    assert correction(merges, 2, undone=False, merged=True) is None
    back = [Step(9, "append", "back"), *merges]
    assert correction(back, 4, undone=False, merged=True) == "was rolled back"


@pytest.mark.parametrize(("noted", "why"), [("0.1", None), ("0.0", "longer ago"), ("", None)])
def test_what_took_rows_back_longer_ago_than_snapshots_tell_is_known_by_the_revision(noted, why):
    """Given a mart whose snapshot has expired, when that of a rollback has too, then the ledger at the end of what is left is of a later revision; what is left tells of the rest itself."""
    steps = [Step(n, "append", kind, f"0.{n - 4}") for n, kind in ((6, "replay"), (5, "append"))]
    told = correction(steps, 1, noted, undone=False)
    assert (why in told) if why else told is None
    assert correction(steps, 5, "0.0", undone=False) is None, "that one is there"


@pytest.mark.parametrize(
    ("end", "stale"), [("1.2", False), ("1.0", False), ("1.3", True), ("0.3", True), ("0.1", True)]
)
def test_a_new_epoch_alone_only_adds_rows(end, stale):
    """Given a mart whose snapshot has expired, when a recreated topic was accepted since, then it is as before, also where the ledger was lost and counts anew; not when rows were taken back as well."""
    told = correction([Step(9, "append", "append", end)], 1, "0.2", undone=False)
    assert bool(told) == stale
