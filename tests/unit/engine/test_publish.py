"""Publishing on a real catalog without Spark: what moves main, what an answer means, and how often the table is looked at."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG
from tidemark.engine.table.publish import Attempt, drop_branch, open_branch, publish, write_receipt

ROWS = pa.table({"id": [1, 2]})


class Catalog(SqlCatalog):
    """SQLite, with a count of loads and an answer that may get lost on its way."""

    loads = 0
    lost = ""

    def load_table(self, identifier):
        self.loads += 1
        return super().load_table(identifier)

    def commit_table(self, table, requirements, updates):
        if self.lost == "before":
            raise ConnectionError("lost")
        answer = super().commit_table(table, requirements, updates)
        if self.lost == "after":
            raise ConnectionError("lost")
        return answer


@pytest.fixture
def lake(tmp_path):
    catalog = Catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    catalog.create_table("n.t", ROWS.schema).append(ROWS)
    yield SimpleNamespace(catalog=catalog, platform=SimpleNamespace(catalog=SimpleNamespace(type="sql")))
    catalog.close()


def staged(lake):
    """An attempt with its branch and what it has written."""
    table = lake.catalog.load_table("n.t")
    head = table.metadata.current_snapshot_id
    table.manage_snapshots().create_branch(head, "attempt").commit()
    table.append(ROWS, branch="attempt")
    written = table.metadata.refs["attempt"].snapshot_id
    lake.catalog.loads = 0
    return Attempt("n.t", "attempt", head), frozenset({written})


def refs(lake):
    return {name: ref.snapshot_id for name, ref in lake.catalog.load_table("n.t").metadata.refs.items()}


def nothing():
    pass


def test_main_and_ledger_tag_move_and_the_branch_goes_with_two_looks_at_the_table(lake):
    attempt, written = staged(lake)
    publish(lake, attempt, written, nothing)
    assert lake.catalog.loads == 2  # ours, and the one that the commit itself compares with
    assert refs(lake) == dict.fromkeys(("main", LEDGER_TAG), *written)


def test_whoever_moves_main_in_the_last_moment_wins(lake):
    attempt, written = staged(lake)
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, lambda: lake.catalog.load_table("n.t").append(ROWS))
    assert refs(lake)["main"] not in {attempt.head, *written}
    assert LEDGER_TAG not in refs(lake)


def test_main_that_moved_before_is_seen_at_once(lake):
    attempt, written = staged(lake)
    lake.catalog.load_table("n.t").append(ROWS)
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, lambda: pytest.fail("the topic is not asked any more"))


def test_a_commit_whose_answer_was_lost_is_published(lake):
    attempt, written = staged(lake)
    lake.catalog.lost = "after"
    publish(lake, attempt, written, nothing)
    assert refs(lake)["main"] in written


def test_a_commit_that_never_arrived_is_not_taken_for_published(lake):
    attempt, written = staged(lake)
    lake.catalog.lost = "before"
    with pytest.raises(ConnectionError):
        publish(lake, attempt, written, nothing)
    assert refs(lake)["main"] == attempt.head


def test_a_table_of_the_same_name_that_came_meanwhile_is_left_alone(lake):
    attempt, written = staged(lake)

    def replaced():
        lake.catalog.drop_table("n.t")
        lake.catalog.create_table("n.t", ROWS.schema)

    with pytest.raises(Overtaken):
        publish(lake, attempt, written, replaced)
    assert refs(lake) == {}


def test_a_branch_with_a_foreign_snapshot_is_not_published(lake):
    attempt, written = staged(lake)
    lake.catalog.load_table("n.t").append(ROWS, branch="attempt")
    with pytest.raises(Stopped):
        publish(lake, attempt, written, nothing)
    assert refs(lake)["main"] == attempt.head


RECEIPT = SimpleNamespace(to_json=lambda: "{}")


def test_a_receipt_is_made_without_spark_and_keeps_the_rows(lake):
    attempt, written = staged(lake)
    receipt = write_receipt(lake, attempt, RECEIPT)
    assert ({receipt.parent_snapshot_id}, receipt.summary[LEDGER_PROPERTY]) == (written, "{}")
    publish(lake, attempt, written | {receipt.snapshot_id}, nothing)
    table = lake.catalog.load_table("n.t")
    assert (table.scan().to_arrow().num_rows, receipt.summary["total-records"]) == (4, "4")


def test_a_receipt_is_made_although_others_commit_in_that_moment(lake):
    """Given a table that grew between the look and the commit, then the receipt is made again."""
    attempt, written = staged(lake)
    commit, others = lake.catalog.commit_table, [ROWS]

    def between(table, requirements, updates):
        if others:
            lake.catalog.load_table("n.t").append(others.pop())
        return commit(table, requirements, updates)

    lake.catalog.commit_table = between
    receipt = write_receipt(lake, attempt, RECEIPT)
    assert others == []
    assert {receipt.parent_snapshot_id} == written
    assert refs(lake)["main"] != attempt.head


def test_a_receipt_that_is_there_although_the_catalog_denies_it_is_not_made_twice(lake):
    attempt, written = staged(lake)
    commit, denied = lake.catalog.commit_table, [CommitFailedException("asked twice")]

    def denying(table, requirements, updates):
        answer = commit(table, requirements, updates)
        if denied:
            raise denied.pop()
        return answer

    lake.catalog.commit_table = denying
    receipt = write_receipt(lake, attempt, RECEIPT)
    assert {receipt.parent_snapshot_id} == written
    publish(lake, attempt, written | {receipt.snapshot_id}, nothing)


def test_a_branch_is_dropped_although_others_commit_in_that_moment(lake):
    attempt, _ = staged(lake)
    commit, turns = lake.catalog.commit_table, iter(range(3))

    def overtaken(table, requirements, updates):
        if next(turns, None) is not None:
            raise CommitFailedException("another was faster")
        return commit(table, requirements, updates)

    lake.catalog.commit_table = overtaken
    drop_branch(lake, attempt)
    assert attempt.branch not in refs(lake)


def test_a_branch_that_someone_dropped_or_whose_base_is_gone_is_lost(lake):
    attempt = Attempt("n.t", "mine", refs(lake)["main"])
    with pytest.raises(Overtaken):
        write_receipt(lake, attempt, RECEIPT)
    with pytest.raises(Overtaken):
        open_branch(lake, Attempt("n.t", "other", 7))
