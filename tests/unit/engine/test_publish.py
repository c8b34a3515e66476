"""Publishing on a real catalog without Spark: what moves main, what an answer means, and how often the table is looked at."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.ledger import ACT_PROPERTY, LEDGER_PROPERTY, LEDGER_TAG
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import PAUSED, TableState
from tidemark.engine.table.branch import Attempt, drop_branch, main_to, open_branch
from tidemark.engine.table.publish import publish, publish_receipt

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
    platform = SimpleNamespace(catalog=SimpleNamespace(type="sql"))
    yield SimpleNamespace(catalog=catalog, platform=platform, require_spark=lambda: None)
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


RECEIPT = SimpleNamespace(to_json=lambda: "{}", batch_id="other", attempt="1")


def alone(lake, head, receipt=RECEIPT, table="n.t"):
    return publish_receipt(lake, TableState(table, exists=True, head=head), receipt)


def head(lake):
    return lake.catalog.load_table("n.t").metadata.current_snapshot()


def test_receipt_main_ledger_tag_and_branch_change_in_one_commit_with_two_looks_at_the_table(lake):
    attempt, written = staged(lake)
    before = len(lake.catalog.load_table("n.t").metadata.metadata_log)
    lake.catalog.loads = 0
    receipt = publish(lake, attempt, written, RECEIPT, act="somebody", properties={"a": "b"})
    assert lake.catalog.loads == 2  # ours, and the one that the commit itself compares with
    assert refs(lake) == dict.fromkeys(("main", LEDGER_TAG), receipt)
    metadata = lake.catalog.load_table("n.t").metadata
    assert (len(metadata.metadata_log), metadata.properties["a"]) == (before + 1, "b")
    assert head(lake).summary[ACT_PROPERTY] == "somebody"


def test_a_receipt_is_made_without_spark_and_keeps_the_rows(lake):
    attempt, written = staged(lake)
    publish(lake, attempt, written, RECEIPT)
    assert ({head(lake).parent_snapshot_id}, head(lake).summary[LEDGER_PROPERTY]) == (written, "{}")
    rows = lake.catalog.load_table("n.t").scan().to_arrow().num_rows
    assert (rows, head(lake).summary["total-records"]) == (4, "4")


@pytest.mark.parametrize("rows", [False, True])
def test_main_keeps_the_retention_that_somebody_has_given_it(lake, rows):
    """Given main with REPLACE BRANCH … WITH SNAPSHOT RETENTION, when a batch is published, or a receipt alone, then it is as it was said."""
    attempt, written = staged(lake)
    table = lake.catalog.load_table("n.t")
    said = {"max_snapshot_age_ms": 86_400_000, "min_snapshots_to_keep": 5}
    commit(table, (), (main_to(table, attempt.head).model_copy(update=said),))
    receipt = publish(lake, attempt, written, RECEIPT) if rows else alone(lake, attempt.head)
    main = lake.catalog.load_table("n.t").metadata.refs["main"]
    assert (main.snapshot_id, main.max_ref_age_ms) == (receipt, None)
    assert (main.max_snapshot_age_ms, main.min_snapshots_to_keep) == tuple(said.values())


def test_what_comes_with_a_receipt_alone_is_said_in_its_commit_or_not_at_all(lake):
    """Given an acceptance that forgets approvals, when another commit comes first, then they stay."""
    attempt, _ = staged(lake)
    state = TableState("n.t", exists=True, head=attempt.head)
    before = len(lake.catalog.load_table("n.t").metadata.metadata_log)
    publish_receipt(lake, state, RECEIPT, properties={"settled": "[]"})
    metadata = lake.catalog.load_table("n.t").metadata
    assert (metadata.properties["settled"], len(metadata.metadata_log)) == ("[]", before + 1)
    other = SimpleNamespace(to_json=lambda: "{ }", batch_id="other", attempt="2")
    with pytest.raises(Overtaken):
        publish_receipt(lake, state, other, properties={"settled": "[1]"})
    assert lake.catalog.load_table("n.t").metadata.properties["settled"] == "[]"


def test_a_receipt_alone_follows_main_and_is_the_first_snapshot_of_a_new_table(lake):
    attempt, _ = staged(lake)
    alone(lake, attempt.head)
    assert head(lake).parent_snapshot_id == attempt.head
    assert refs(lake)["attempt"] != head(lake).snapshot_id

    lake.catalog.create_table("n.new", ROWS.schema)
    first = alone(lake, None, table="n.new")
    found = lake.catalog.load_table("n.new").metadata
    assert [s.snapshot_id for s in found.snapshots] == [first]
    assert set(found.refs) == {"main", LEDGER_TAG}
    with pytest.raises(Overtaken):
        alone(lake, None, SimpleNamespace(to_json=lambda: "another", batch_id="b", attempt="2"), "n.new")


def test_whoever_moves_main_in_the_last_moment_wins(lake):
    attempt, written = staged(lake)
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, RECEIPT, lambda: lake.catalog.load_table("n.t").append(ROWS))
    assert refs(lake)["main"] not in {attempt.head, *written}
    assert LEDGER_TAG not in refs(lake)


def test_main_that_moved_before_is_seen_at_once(lake):
    attempt, written = staged(lake)
    lake.catalog.load_table("n.t").append(ROWS)
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, RECEIPT, lambda: pytest.fail("the topic is not asked any more"))


def test_what_a_run_has_staged_is_not_published_on_a_table_that_was_paused_meanwhile(lake):
    """Given a pause since the plan, when a run publishes, then it plans again, which finds the pause; an act that a person asks for is published."""
    attempt, written = staged(lake)
    with lake.catalog.load_table("n.t").transaction() as transaction:
        transaction.set_properties({PAUSED: "{}"})
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, RECEIPT, unless_paused=True)
    assert refs(lake)["main"] == attempt.head
    assert publish(lake, attempt, written, RECEIPT) == refs(lake)["main"]


def test_a_commit_whose_answer_was_lost_is_published(lake):
    attempt, written = staged(lake)
    lake.catalog.lost = "after"
    receipt = publish(lake, attempt, written, RECEIPT)
    assert refs(lake)["main"] == receipt


def test_a_commit_that_never_arrived_is_not_taken_for_published(lake):
    attempt, written = staged(lake)
    lake.catalog.lost = "before"
    with pytest.raises(ConnectionError):
        publish(lake, attempt, written, RECEIPT)
    assert refs(lake)["main"] == attempt.head


def test_a_table_of_the_same_name_that_came_meanwhile_is_left_alone(lake):
    attempt, written = staged(lake)

    def replaced():
        lake.catalog.drop_table("n.t")
        lake.catalog.create_table("n.t", ROWS.schema)

    with pytest.raises(Overtaken):
        publish(lake, attempt, written, RECEIPT, replaced)
    assert refs(lake) == {}


def test_a_branch_with_a_foreign_snapshot_is_not_published(lake):
    attempt, written = staged(lake)
    lake.catalog.load_table("n.t").append(ROWS, branch="attempt")
    with pytest.raises(Stopped):
        publish(lake, attempt, written, RECEIPT)
    assert refs(lake)["main"] == attempt.head


def test_an_attempt_of_which_somebody_has_expired_a_snapshot_is_planned_again(lake):
    """Given an attempt with two snapshots, when its branch is taken back to the first, then it stops; when an expirer removes the first behind its head, then it is overtaken."""
    attempt, first = staged(lake)
    table = lake.catalog.load_table("n.t")
    table.append(ROWS, branch="attempt")
    whole = table.metadata.refs["attempt"].snapshot_id
    written = first | {whole}

    taken_back = Attempt("n.t", "back", attempt.head)
    table.manage_snapshots().create_branch(*first, taken_back.branch).commit()
    with pytest.raises(Stopped):
        publish(lake, taken_back, written, RECEIPT)

    table.manage_snapshots().remove_branch(taken_back.branch).commit()
    table.maintenance.expire_snapshots().by_ids([*first]).commit()
    with pytest.raises(Overtaken):
        publish(lake, attempt, written, RECEIPT)
    assert refs(lake)["main"] == attempt.head


def between(lake, change):
    """`change` is made once, between the look at the table and the commit."""
    commit, waiting = lake.catalog.commit_table, [change]

    def overtaken(table, requirements, updates):
        if waiting:
            waiting.pop()()
        return commit(table, requirements, updates)

    lake.catalog.commit_table = overtaken
    return waiting


def test_it_is_published_although_others_write_to_their_branches_in_that_moment(lake):
    """Given a table that grew between the look and the commit, then the receipt is made again."""
    attempt, written = staged(lake)
    lake.catalog.load_table("n.t").manage_snapshots().create_branch(attempt.head, "other").commit()
    waiting = between(lake, lambda: lake.catalog.load_table("n.t").append(ROWS, branch="other"))
    receipt = publish(lake, attempt, written, RECEIPT)
    assert waiting == []
    assert (refs(lake)["main"], {head(lake).parent_snapshot_id}) == (receipt, written)


def test_it_is_not_published_when_another_writes_to_the_branch_in_that_moment(lake):
    attempt, written = staged(lake)
    between(lake, lambda: lake.catalog.load_table("n.t").append(ROWS, branch="attempt"))
    with pytest.raises(Stopped):
        publish(lake, attempt, written, RECEIPT)
    assert refs(lake)["main"] == attempt.head


def test_what_is_published_although_the_catalog_denies_it_is_not_published_twice(lake):
    attempt, written = staged(lake)
    commit, denied = lake.catalog.commit_table, [CommitFailedException("asked twice")]

    def denying(table, requirements, updates):
        answer = commit(table, requirements, updates)
        if denied:
            raise denied.pop()
        return answer

    lake.catalog.commit_table = denying
    receipt = publish(lake, attempt, written, RECEIPT)
    assert (denied, refs(lake)["main"], {head(lake).parent_snapshot_id}) == ([], receipt, written)


def test_a_branch_begins_at_the_planned_head_and_is_kept_for_a_day_from_now(lake):
    old = head(lake)
    lake.catalog.load_table("n.t").append(ROWS)
    between(lake, lambda: lake.catalog.load_table("n.t").append(ROWS))
    assert open_branch(lake, Attempt("n.t", "mine", old.snapshot_id)) == frozenset()
    branch = lake.catalog.load_table("n.t").metadata.refs["mine"]
    assert (branch.snapshot_id, branch.max_ref_age_ms) == (old.snapshot_id, 24 * 3600 * 1000)


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
        publish(lake, attempt, frozenset(), RECEIPT)
    with pytest.raises(Overtaken):
        open_branch(lake, Attempt("n.t", "other", 7))
