"""The review pack as people read it: on a phone and a desktop, by keyboard, in both color schemes, with axe-core's eyes."""

import json
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import DESKTOP, PHONE, open_page, screenshots
from reviews import CONTRACT, NOON, receipt, review

from tidemark.domain.config.contract import Upsert
from tidemark.domain.lineage.column_lineage import Exposure
from tidemark.review.collect import Current
from tidemark.review.pack import page

SIZES = {"desktop": DESKTOP, "phone": PHONE}


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A page with two tables, one in trouble, and everything that a page can have."""
    asked = {"by": "team:lake", "reason": "agreed with the shop", "at": NOON.isoformat()}
    change = {**asked, "changes": [{"kind": "add_column", "path": ["channel"]}], "plan": "p1"}
    cause = {"cause": "undecodable", "count": 2, "resolved": 1, "first_seen": NOON.isoformat()}
    upsert = Upsert(table="shop.orders_current", keys=["order_id"], order_by=["lsn"])
    cutover = {**asked, "rows": 60, "source": "topic:old/orders", "until": NOON.isoformat()}
    whole = review(
        CONTRACT.model_copy(update={"upsert": upsert}),
        current=Current(replace(review().status, table="shop.orders_current", state="lagging")),
        cutover=cutover,
        exposed=[Exposure("marts.customers", "email", ("pii",), ("shop.orders", "email"))],
        marts={
            "marts.customers": ["shop.orders"],
            "marts.sessions": ["shop.orders"],
            "marts.who": ["marts.customers"],
        },
        receipts=[receipt(n, delay=3 + n % 4, quarantined=n % 2) for n in range(20)],
        quarantine=[{**cause, "last_seen": NOON.isoformat()}],
        changes=[change],
        operations=[{**asked, "verb": "approve", "arguments": {}}],
    )
    salary = {"kind": "add_column", "path": "salary", "from": None, "to": "bigint", "reason": ""}
    never = {**salary, "kind": "incompatible", "path": "id", "from": "bigint", "reason": "of the contract"}
    waiting = [{**salary, "verdict": "review"}, {**never, "verdict": "impossible"}]
    other = review(
        CONTRACT.model_copy(update={"table": "shop.payments_of_a_long_name"}),
        state="schema_review",
        waits={"plan": "5b657e801151", "changes": waiting},
        why="shop.payments_of_a_long_name is schema_review: Plan 5b657e801151 waits. " + "a_long_word" * 20,
    )
    file = tmp_path_factory.mktemp("pack") / "index.html"
    file.write_text(page([whole, other], "lake"), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def browser_page():
    with open_page() as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_can_be_read_by_everyone(browser_page, pack, size, scheme):
    """No finding of axe-core (contrast, names, landmarks, order of headings); nothing is wider than the screen."""
    browser_page.set_viewport_size(SIZES[size])
    browser_page.emulate_media(color_scheme=scheme)
    browser_page.goto(pack)
    browser_page.screenshot(path=screenshots() / f"review-{size}-{scheme}.png", full_page=True)
    found = Axe().run(browser_page)
    told = [(each["id"], each["nodes"][0]["html"][:200]) for each in found.response["violations"]]
    assert told == [], json.dumps(told, indent=1)
    for picture in browser_page.locator(".lineage").filter(visible=True).all():
        inside = picture.evaluate(
            "e => e.getBoundingClientRect().right <= e.parentElement.getBoundingClientRect().right"
        )
        assert inside, "the whole way of the data is seen, nothing of it needs to be scrolled to"
    assert browser_page.locator(".lineage").filter(visible=True).count() == 2
    wide = browser_page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0


def test_the_keyboard_reaches_everything(browser_page, pack):
    """Tab goes to the skip link first, then to each table; wide parts can be scrolled, details opened; focus is seen."""
    browser_page.set_viewport_size(DESKTOP)
    browser_page.goto(pack)
    reached = []
    for _ in range(40):
        browser_page.keyboard.press("Tab")
        where = browser_page.evaluate(
            "(e => e === document.body ? null : [e.tagName, e.getAttribute('href'), e.getAttribute('aria-label'), "
            "getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        if where is None:
            break
        reached.append(where)
    assert reached[0][:2] == ["A", "#tables"]
    assert {"#shop.orders", "#shop.payments_of_a_long_name"} <= {href for _, href, _, _ in reached}
    assert "Reconciliation of shop.orders" in {label for _, _, label, _ in reached}
    assert "SUMMARY" in {tag for tag, _, _, _ in reached}
    assert all(outline != "none" for _, _, _, outline in reached)
