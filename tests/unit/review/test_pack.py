"""The review pack: one page that says what reviewers ask, needs nothing else, and cannot be broken by what tables say."""

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviews import CONTRACT, NOON, receipt, review

from tidemark.domain.config.contract import Contract, Owners, Upsert
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.lineage.column_lineage import lineage_of, untraced
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.look.status import Facts, Hint
from tidemark.engine.schema.history import KEPT
from tidemark.review.collect import Current, exposed, why
from tidemark.review.pack import page
from tidemark.review.picture import lineage
from tidemark.review.plots import over_time, short
from tidemark.review.receipts import fates_of, recovery_of

ACT = {"at": NOON.isoformat(), "by": "ada", "verb": "pause", "reason": "r", "arguments": {}}
VOID = {"meta", "link", "br", "line", "rect", "circle", "path", "polyline"}


class Balanced(HTMLParser):
    """Every element that opens closes, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.faults.append(tag)


def sound(html):
    parser = Balanced()
    parser.feed(html)
    assert not parser.faults
    assert not parser.open
    assert len(parser.ids) == len(set(parser.ids))


def test_the_page_needs_no_network_and_no_script():
    html = page([review()], "lake")
    sound(html)
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?!#)', html)
    assert "url(" not in html


def test_an_upsert_table_and_a_cutover_are_told_with_their_table():
    """Given a table with a current state beside it and a published backfill, then the page says how both stand."""
    contract = CONTRACT.model_copy(
        update={"upsert": Upsert(table="shop.orders_current", keys=["order_id"], order_by=["lsn"])}
    )
    current = replace(review().status, table="shop.orders_current", state="lagging", next={0: 11}, rows=7)
    cutover = {
        "at": NOON.isoformat(), "by": "ada", "rows": 60, "source": "topic:main/old",
        "until": NOON.isoformat(), "reason": "moved in",
    }  # fmt: skip
    made = review(contract, current=Current(current), cutover=cutover)
    html = page([made], "lake")
    sound(html)
    for expected in (
        "shop.orders_current</code>: lagging; one row per order_id, the newest by lsn",
        "0:11",
        "60 rows from topic:main/old",
        "moved in",
    ):
        assert expected in html
    assert made.as_json()["upsert"]["table"] == "shop.orders_current"
    assert "Current state by key" not in page([review()], "lake")


def test_the_type_of_a_column_that_is_called_as_a_secret_is_none():
    fields = {"access_token": "string", "login": "struct<password:string>"}
    value = {"format": "json", "fields": fields}
    asked = {"topic": "t", "table": "s.t", "value": value, "table_properties": {"their.token": "hunter2"}}
    told = review(Contract.model_validate(asked)).as_json()["contract"]
    assert (told["value"]["fields"], told["table_properties"]) == (fields, {"their.token": "***"})


def test_it_says_who_answers_what_may_change_and_where_it_can_be_recovered():
    html = page([review()], "lake")
    for expected in (
        "team:orders",
        "team:lake",
        "marts.customers",
        "Rows for 30d",
        "tidemark rollback shop.orders",
    ):
        assert expected in html
    assert "next offsets 0:57" in html


@pytest.mark.parametrize(
    ("snapshots", "most"), [({}, "2000 and 8MB of their ledgers."), ({"max_count": 500}, "500.")]
)
def test_no_more_snapshots_are_promised_than_maintenance_leaves(snapshots, most):
    contract = Contract(topic="orders", table="shop.orders", maintenance={"snapshots": snapshots})
    kept = dict(review(contract).promises)["Kept for"]
    assert kept.endswith(f"snapshots for 7d, at least the newest 20, at most {most}")


def test_what_a_contract_says_cannot_become_markup():
    html = page([review()], "lake")
    assert "<b>as</b>" not in html
    assert "Orders &lt;b&gt;as&lt;/b&gt; published" in html


def test_the_worst_table_comes_first_with_its_next_step():
    bad = CONTRACT.model_copy(update={"table": "shop.bad"})
    html = page([review(), review(bad, state="schema_review")], "lake")
    assert html.index('id="shop.bad"') < html.index('id="shop.orders"')
    assert "tidemark run shop.orders" in html


def test_a_table_whose_upsert_table_stopped_is_as_bad_as_that_and_says_why():
    """Given a merge that waits for a decision beside a green append table, then it comes before a table that lags, with both states, the reason, the plan and the next step."""
    contract = CONTRACT.model_copy(
        update={"upsert": Upsert(table="shop.orders_current", keys=["order_id"], order_by=["lsn"])}
    )
    stopped = replace(
        review(state="schema_review").status, table="shop.orders_current", remedy="tidemark plan it"
    )
    wider = {
        "kind": "widen_type",
        "path": "id",
        "from": "int",
        "to": "bigint",
        "reason": "",
        "verdict": "review",
    }
    current = Current(stopped, {"plan": "5b657e801151", "changes": [wider]}, "a <key> is wider")
    made = review(contract, current=current)
    late = review(CONTRACT.model_copy(update={"table": "shop.late"}), state="lagging")
    html = page([late, made], "lake")
    sound(html)
    assert html.index('id="shop.orders"') < html.index('id="shop.late"')
    nav, _, rest = html.partition("</nav>")
    assert 'shop.orders_current <span class="bad">schema_review</span>' in nav
    assert '<span class="state bad">schema_review</span></h2>' in rest
    top = rest.split("Who and what")[0]
    for expected in ("a &lt;key&gt; is wider", "5b657e801151", "int → bigint", "tidemark plan it"):
        assert expected in top
    assert top.count("<code>shop.orders_current</code>") == 3
    told = made.as_json()["upsert"]
    assert (told["state"], told["why"], told["waits"]["changes"]) == ("schema_review", current.why, [wider])
    alone = replace(made, current=Current(stopped, unplanned="registry_down"))
    assert "</code> What waits for a decision could not be asked: registry_down." in page([alone], "lake")


@pytest.mark.parametrize(
    ("oldest", "kafka_asked", "said"),
    [
        (1, True, "back to 2026-03-01 12:01Z by rollback"),
        (
            1,
            False,
            "snapshots reach back to 2026-03-01 12:01Z; a rollback also needs the records since in Kafka",
        ),
        (None, True, "no rollback: no earlier receipt is on main with the records since in Kafka"),
    ],
)
def test_a_rollback_is_promised_as_far_as_it_is_known_to_go(oldest, kafka_asked, said):
    back = None if oldest is None else receipt(oldest)
    html = page([replace(review(), recovery=recovery_of(receipt(4), back, kafka_asked=kafka_asked))], "lake")
    assert said in html
    assert ("by rollback" in html) == said.endswith("by rollback")


def test_what_people_did_is_told_with_what_it_was_about():
    """Given acceptances, a replay, an approval and a rollback, then the page tells them apart: offsets, plan, snapshots."""
    acts = {
        "accept": {"what": "quarantine-batch", "dry_run": False, "ranges": {"0": [5, 57], "1": [0, 9]}},
        "replay": {"what": "range", "partition": 0, "from": 5, "to": 9, "quarantined": 0},
        "approve": {"plan": "ab12", "changes": [{"kind": "add_column", "path": "note", "to": "<b>"}]},
        "rollback": {
            "target_snapshot": 7,
            "next": {"0": 5},
            "stale": [["marts", "m"]],
            "already_there": False,
        },
    }
    operations = [
        {"at": NOON.isoformat(), "by": "ada", "verb": verb, "reason": "r", "arguments": arguments,
         "before_snapshot": 11, "after_snapshot": 12}
        for verb, arguments in acts.items()
    ]  # fmt: skip
    of_upsert = {**operations[0], "table": "shop.orders_current"}
    assert "<code>shop.orders_current</code>" in page([review(operations=[of_upsert])], "lake")
    html = page([review(operations=operations)], "lake")
    sound(html)
    for expected in (
        "what: quarantine-batch; ranges: 0:[5, 57), 1:[0, 9); snapshot: 11 → 12",
        "what: range; partition: 0; from: 5; to: 9; snapshot: 11 → 12",
        "plan: ab12; changes: add_column note",
        "target snapshot: 7; next: 0:5",
    ):
        assert expected in html, expected
    assert "already there" not in html


def test_what_maintenance_did_is_told_with_its_numbers():
    """Given a maintenance by hand that deleted rows, found nothing to compact and failed at an expiry, then the page says so of each."""
    gains = [
        Gain("shop.orders", "retention", acted=True, reason="rows before 2026", numbers={"rows_deleted": 13, "conflicts": 0, "seconds": 1.5}),
        Gain("shop.orders", "compaction", acted=False, reason="2 files, no deletes", numbers={"files_before": 2}),
        Gain("shop.orders", "snapshot_expiry", acted=False, reason="", error={"state": "failed", "message": "no <disk>"}),
    ]  # fmt: skip
    arguments = {"kinds": ["compaction"], "dry_run": False, "found": [each.as_json() for each in gains]}
    act = {"at": NOON.isoformat(), "by": "ada", "verb": "maintain", "reason": "r", "arguments": arguments}
    html = page([review(operations=[act])], "lake")
    sound(html)
    assert (
        "found: shop.orders retention done (rows before 2026; rows deleted 13), "
        "shop.orders compaction nothing done (2 files, no deletes; files before 2), "
        "shop.orders snapshot_expiry failed (no &lt;disk&gt;)"
    ) in html


def test_more_than_is_shown_is_told_to_be_there():
    """Given more acts than the page shows and a history as long as a table keeps it, then the page says so."""
    change = {"at": NOON.isoformat(), "by": "ada", "changes": [], "reason": ""}
    html, short_html = (
        page([review(changes=[change] * n, operations=[ACT], older_operations=n - KEPT + 1)], "lake")
        for n in (KEPT, KEPT - 1)
    )
    sound(html)
    assert "And 1 more in the operations log." in html
    assert f"The table keeps {KEPT} of these" in html
    assert "more in the operations log" not in short_html
    assert "of these: older ones" not in short_html


def test_the_schema_history_says_from_what_to_what_and_who_it_really_was():
    wider = {"kind": "widen_type", "path": "id", "from": "int", "to": "<long>"}
    moved = {"kind": "rename", "path": "", "from": "shop.old", "to": "shop.orders"}
    who = [
        {"by": "ada@x", "declared": "ada", "authenticated": "ada@x"},
        {"by": "bob", "declared": "bob", "authenticated": None},
        {"by": "contract", "declared": None, "authenticated": None},
    ]
    changes = [{"at": NOON.isoformat(), "reason": "", "changes": [wider, moved], **each} for each in who]
    html = page([review(changes=changes)], "lake")
    sound(html)
    assert "widen_type <code>id</code>: int → &lt;long&gt;, rename: shop.old → shop.orders</td>" in html
    for told in ("ada@x (authenticated, declared as ada)", "bob (declared)", "contract"):
        assert f"<td>{told}</td>" in html


def test_an_incompatible_change_is_promised_for_what_an_approval_does():
    said = dict(review(CONTRACT).promises)["Schema changes"]
    assert "a wider type: applied by itself" in said
    assert (
        "an incompatible change: its records wait in Kafka until an approver sends all of that writer" in said
    )


def test_where_nobody_is_named_anybody_approves():
    contract = CONTRACT.model_copy(update={"approvers": (), "owners": Owners()})
    assert "<dt>Approves changes</dt><dd>anybody, for nobody is named</dd>" in page(
        [review(contract)], "lake"
    )


def test_rows_that_no_batch_changed_are_told():
    """Given an UPDATE by hand, then the page names its snapshot."""
    by_hand = {
        "snapshot_id": 4711, "at": NOON.isoformat(), "operation": "overwrite", "rows_brought": 3, "rows_removed": 3,
    }  # fmt: skip
    html, more = (
        page([review(snapshots={"others": [by_hand], "others_count": count})], "lake") for count in (1, 7)
    )
    sound(html)
    assert "overwrite, 3 rows in, 3 out (snapshot <code>4711</code>)</dd>" in html
    assert "(snapshot <code>4711</code>); and 6 more</dd>" in more
    assert "<dt>Other commits that changed rows</dt><dd>none among these snapshots" in page(
        [review()], "lake"
    )


def test_offsets_without_a_record_are_told_apart_from_records():
    (found,) = fates_of([receipt(n, quarantined=1) for n in range(3)])
    assert (found["read"], found["written"], found["quarantined"]) == (33, 30, 3)
    assert found["never_committed"] == 2
    assert found["balanced"]


def test_a_table_that_was_never_loaded_has_a_page_too():
    html = page([review(receipts=[], state="lagging", columns=[], marts={})], "lake")
    sound(html)
    assert "Nothing was published yet." in html


def test_a_mart_that_carries_a_tagged_column_without_leave_is_told_at_the_top():
    """Given a mart that the contract does not name in `allow`, then summary, table and column say so, as the mart's check does."""
    columns = {
        "marts.leaks": [{"name": "mail", "type": "string", "from": [["shop.orders", "email"]]}],
        "marts.customers": [{"name": "email", "type": "string", "from": [["shop.orders", "email"]]}],
    }
    lineage = lineage_of(columns, [CONTRACT])
    found = exposed(CONTRACT, lineage, sorted(columns))
    (email,) = review().columns
    made = review(
        exposed=found, columns=[{**email, "becomes": ["marts.customers.email", "marts.leaks.mail"]}]
    )
    html = page([made], "lake")
    sound(html)
    nav, _, rest = html.partition("</nav>")
    assert "tagged columns exposed: 1" in nav
    assert "marts.leaks.mail carries pii of shop.orders.email" in rest
    assert '<code>marts.leaks.mail</code> <span class="bad">not allowed</span>' in rest
    assert rest.count(">not allowed<") == 1
    assert made.as_json()["exposed"] == [
        {"table": "marts.leaks", "column": "mail", "tags": ["pii"], "of": "email"}
    ]
    assert "exposed" not in page([review()], "lake")


def test_a_column_of_a_mart_that_nobody_can_tell_the_origin_of_is_told():
    """Given such a column, and one that is made of nothing, then the page and the answer to programs name the first: tagged columns may be in it."""
    columns = {"marts.leaks": [{"name": "upper(email)", "type": "string"}, {"name": "n", "from": []}]}
    marts = {"marts.leaks": ("shop.orders",), "marts.above": ("marts.leaks",)}
    lineage = lineage_of(columns, [CONTRACT])
    assert untraced(lineage, "marts.leaks", ["upper(email)", "n"], marts) == ["upper(email)"]
    made = review(untraced=[("marts.leaks", "upper(email)")])
    html = page([made], "lake")
    sound(html)
    assert "what <code>marts.leaks.upper(email)</code> is made of" in html
    assert made.as_json()["untraced"] == [{"table": "marts.leaks", "column": "upper(email)"}]
    assert "Not known" not in page([review()], "lake")


def test_the_rules_of_the_contract_are_promised_with_what_follows():
    rules = [
        QualityRule(check="not_null", column="order_id"),
        QualityRule(name="paid", sql="amount > 0", on_failure="block"),
        QualityRule(check="min_rows", min=5, on_failure="block"),
        QualityRule(name="few", check="min_rows", min=9, on_failure="warn"),
        QualityRule(check="unique", column="order_id", on_failure="warn"),
    ]
    html = page([review(CONTRACT.model_copy(update={"quality": tuple(rules)}))], "lake")
    assert (
        "not_null_order_id: order_id is not NULL; else the row goes to quarantine. "
        "paid: amount &gt; 0; else nothing of the batch is published. "
        "min_rows: the batch has at least 5 rows; else nothing of the batch is published. "
        "few: the batch has at least 9 rows; else it is published, and how many are missing is counted. "
        "unique_order_id: order_id is unique within the batch; else the row is counted."
    ) in html
    assert "No rule beside" in page([review()], "lake")


def test_a_flood_is_promised_with_its_floor():
    html = page([review()], "lake")
    assert "above 5.00% and from 10 records on nothing of the batch is published." in html


def test_the_picture_draws_each_mart_behind_what_it_is_made_of():
    """Given a mart on the upsert table and one on that mart, then arrows go from there, not from the append table."""
    marts = {"m.who": ["a.now", "m.daily"], "m.daily": ["a.log"], "m.other": ["b.elsewhere", "a.log"]}
    svg = lineage("log", "a.log", "a.log_quarantine", "a.now", marts)
    sound(svg)
    assert (
        "then quarantine a.log_quarantine, upsert table a.now, mart m.daily, mart m.other; then mart m.who"
        in svg
    )
    across, down = svg.split("<svg")[1:]
    for each in (across, down):
        assert each.count('class="arrow"') == 7 - 1 + 1, (
            "one for each box but the first, and a second one into m.who"
        )
    assert "elsewhere" not in svg


def test_a_topic_and_a_table_of_one_name_are_two_boxes():
    """Given topic and table of one name, then each has its place, and the lines are those of any other topic."""
    drawn = [
        lineage(topic, "a.log", "a.log_quarantine", "a.now", {"m.x": ["a.log"]})
        for topic in ("a.lot", "a.log")
    ]
    assert drawn[1] == drawn[0].replace("a.lot", "a.log")


def test_no_line_of_the_picture_for_phones_runs_behind_a_box_of_its_layer():
    """Given two marts side by side, when the first has one of its own, then its line goes around the second."""
    marts = {"m.last": ["a.log"], "m.sessions": ["a.log"], "m.visitors": ["m.last"]}
    down = lineage("log", "a.log", "a.log_quarantine", None, marts).split("<svg")[2]
    (line,) = re.findall(r'd="M([\d.]+),[\d.]+ h-4 V', down)
    boxes = dict(re.findall(r"<title>([^<]+)</title><rect x=\"([\d.]+)\"", down))
    assert line == boxes["m.last"] == boxes["m.sessions"]
    beside = {**marts, "m.visitors": ["m.sessions"]}
    assert " h-" not in lineage("log", "a.log", "a.log_quarantine", None, beside)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=40)


@settings(max_examples=25)
@given(description=TEXT, reason=TEXT, delays=st.lists(st.floats(0, 1e7), max_size=6))
def test_any_words_and_figures_make_a_sound_page(description, reason, delays):
    contract = CONTRACT.model_copy(update={"description": description})
    operations = [{"at": NOON.isoformat(), "by": "a", "verb": "pause", "reason": reason, "arguments": {}}]
    receipts = [receipt(n, delay=delay) for n, delay in enumerate(delays)]
    sound(page([review(contract, receipts, operations=operations)], "lake"))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e9)), min_size=1, max_size=30))
def test_every_point_lies_inside_of_the_plot(values):
    points = sorted((NOON + timedelta(seconds=s), v) for s, v in values)
    svg = over_time(points, title="x")
    xs = [tuple(map(float, pair.split(","))) for pair in re.search(r'points="([^"]*)"', svg)[1].split()]
    assert all(0 <= x <= 640 and 0 <= y <= 200 for x, y in xs)


def test_what_could_not_be_asked_is_not_told_as_nothing():
    """Given services that do not answer, then the page says so where it would say zero, nothing, or nobody."""
    unasked = {"table": "catalog_down", "quarantine": "catalog_down", "operations": "catalog_down"}
    contract = CONTRACT.model_copy(
        update={"upsert": Upsert(table="shop.orders_current", keys=["order_id"], order_by=["lsn"])}
    )
    made = review(contract, receipts=[], state="catalog_down", columns=[], unasked=unasked)
    made = replace(made, status=replace(made.status, rows=None, lag_records=None, quarantined=None))
    html = page([replace(made, current=Current(replace(made.status, next={})))], "lake")
    there = review(contract, receipts=[], columns=[])
    there = replace(there, current=Current(replace(there.status, next={})))
    sound(html)
    for figure in ("rows", "waiting in Kafka", "in quarantine", "snapshots"):
        assert f'<span class="soft">{figure}</span><b>–</b>' in html
    for untold in (
        "Nothing was published yet",
        "Nothing is in quarantine",
        "Nobody has intervened",
        "began with",
        "Records per batch: nothing yet",
        "0 columns",
        "0 data files",
        "none among these snapshots",
        "none yet",
        "nothing yet; ",
    ):
        assert untold not in html
        assert untold in page([there], "lake")
    assert html.count("It could not be asked: catalog_down.") == 6
    assert "1 columns, as last seen" in page([replace(made, columns=review().columns)], "lake")


def test_a_runbook_is_a_link_only_where_it_leads_somewhere():
    def told(runbook):
        return page([review(CONTRACT.model_copy(update={"runbook": runbook}))], "lake")

    assert 'href="https://wiki/orders"' in told("https://wiki/orders")
    assert 'href="mailto:on@call"' in told("mailto:on@call")
    assert "<dd>ask the team</dd>" in told("ask the team")
    assert 'href="javascript' not in told("javascript:alert(1)//://")


def test_what_a_person_approved_without_words_was_not_let_through_by_the_contract():
    change = {"at": NOON.isoformat(), "changes": [{"kind": "add_column", "path": "note"}], "reason": ""}
    assert "the contract lets it through" in page([review(changes=[{**change, "by": "contract"}])], "lake")
    assert "the contract lets it through" not in page([review(changes=[{**change, "by": "ada"}])], "lake")


def test_what_waits_for_a_decision_is_there_with_its_plan_and_who_may_decide():
    new = {"kind": "add_column", "from": None, "to": "bigint", "reason": ""}
    changes = [{**new, "path": "sal<ary", "verdict": "review"}, {**new, "path": "fine", "verdict": "apply"}]
    waits = {"plan": "5b657e801151", "changes": changes}
    html = page([review(state="schema_review", waits=waits)], "lake")
    sound(html)
    for expected in ("5b657e801151", "sal&lt;ary", "team:lake"):
        assert expected in html
    assert "<code>fine</code>" not in html
    assert "Cannot be done" not in html


def test_a_plan_that_could_not_be_asked_is_told_to_be_missing():
    html = page([review(state="schema_review", unasked={"waits": "registry_down"})], "lake")
    sound(html)
    assert "What waits for a decision could not be asked: registry_down." in html
    assert "could not be asked" not in page([review(state="schema_review")], "lake")


def test_what_no_approval_can_help_is_not_said_to_wait_for_one():
    never = {"kind": "incompatible", "path": "id", "from": "bigint", "to": "text", "verdict": "impossible"}
    waits = {"plan": "5b657e801151", "changes": [{**never, "reason": "of the contract"}]}
    html = page([review(state="table_incompatible", waits=waits)], "lake")
    sound(html)
    assert "Cannot be done</strong> (plan <code>5b657e801151</code>):" in html
    assert "Waits for a decision" not in html


def test_a_stop_is_told_in_the_words_of_the_run_that_it_stopped():
    """Given a blocked batch, then the page names the rule; once the table stands otherwise, it says what that means; a table that goes on needs no reason."""
    hint = Hint(stopped="quality_blocked", why="shop.orders is quality_blocked: amount_is_small: 3 rows")
    facts = Facts(CONTRACT, hint=hint)
    assert why(facts, "quality_blocked") == hint.why
    assert why(facts, "topic_missing") == "Topic orders does not exist on cluster main."
    assert why(facts, "lagging") == ""
    html = page([review(state="quality_blocked", why=f"{hint.why} <b>")], "lake")
    sound(html)
    assert "<strong>Why:</strong> shop.orders is quality_blocked: amount_is_small: 3 rows &lt;b&gt;" in html
    assert "Why:" not in page([review()], "lake")


@pytest.mark.parametrize(
    ("most", "marks"), [(1, "0 1 2"), (3, "0 2 4"), (50, "0 25 50"), (2501, "0 1.25k 2.5k")]
)
def test_counts_are_drawn_against_whole_numbers(most, marks):
    svg = over_time([(NOON, 1.0), (NOON + timedelta(hours=1), float(most))], title="x", bars=True)
    assert " ".join(re.findall(r'text-anchor="end">([\d.k]+)</text>', svg)) == marks


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"), (0.25, "0.25"), (999.4, "999"), (999.5, "1k"), (1_234_567, "1.23M"), (999_700, "1M"),
        (2.3e12, "2.3T"), (999.9e12, "1P"),
    ],
)  # fmt: skip
def test_a_figure_has_the_unit_that_its_rounded_digits_need(value, told):
    assert short(value) == told


def test_a_chart_of_nothing_is_a_sentence():
    html = page([review()], "lake")
    assert html.count('class="plot"') == 2
    assert "Quarantined per batch: none." in html
    assert page([review(receipts=[receipt(0, quarantined=1)])], "lake").count('class="plot"') == 3
