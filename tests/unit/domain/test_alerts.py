"""An alert says what happened and what to do next, in the shape that chat webhooks take."""

import time
from uuid import UUID

import pytest

from tidemark.domain.alerts import Alert, figureless, message, news_of, stopped


def test_a_stopped_table_is_told_with_its_state_and_next_step():
    error = {
        "state": "schema_review",
        "message": "a column changed",
        "next_step": "tidemark plan shop.orders",
        "safe": "it waits in Kafka",
    }
    assert message([stopped("shop.orders", error, "0123456789")])["text"].splitlines()[1:] == [
        "*shop.orders* `schema_review` (run 01234567): a column changed",
        "> safe: it waits in Kafka",
        "> next: tidemark plan shop.orders",
    ]


def test_without_a_next_step_the_remedy_of_the_state_is_named():
    found = stopped("shop.orders", {"state": "paused", "message": "m"}, "r")
    assert found.next_step == "tidemark resume shop.orders --reason …"


def test_a_storm_is_one_message_of_bounded_length():
    body = message([Alert(f"t{n}", "x" * 5000) for n in range(300)])
    assert len(body["alerts"]) == 300
    assert len(body["blocks"]) < 50
    assert all(len(block["text"]["text"]) <= 3000 for block in body["blocks"])
    assert len(body["text"]) < 16_000, "what Mattermost takes"
    assert all(len(each["what"]) <= 2000 for each in body["alerts"])
    few = message([Alert("t", "x" * 50_000, next_step="look"), *(Alert(f"t{n}", "short") for n in range(29))])
    assert "> next: look" in few["text"]
    assert "10 more" in few["text"]


def test_a_service_that_is_down_is_told_once_however_many_tables_stand_still_for_it():
    """Given three tables and the check of a fourth that Spark keeps waiting, and one that Kafka does, then two lines tell of them and the JSON of each."""
    down = [Alert(f"t{n}", f"t{n}: no answer", "spark_down", "wait") for n in range(3)]
    other = Alert("k", "no answer", "kafka_down", "wait")
    body = message(
        [
            *down,
            other,
            Alert("t3", "check failed", "spark_down", "wait"),
            Alert("t1", "again", "spark_down", "wait"),
        ]
    )
    assert body["text"].splitlines()[1:] == [
        "*t0* `spark_down`: t0: no answer",
        "> next: wait",
        "> likewise: t1, t2, t3",
        "*k* `kafka_down`: no answer",
        "> next: wait",
    ]
    assert len(body["alerts"]) == 6


def test_text_of_others_neither_pings_nor_links_and_is_whole():
    """Given a message with what Slack takes for a command, then it is shown as it is written; the JSON keeps it."""
    said = "a <> b & <!channel> <https://evil|click>"
    body = message([stopped("t", {"message": said, "next_step": "x < y"}, "r")])
    shown = [body["text"], body["blocks"][1]["text"]["text"]]
    assert all("a &lt;&gt; b &amp; &lt;!channel&gt; &lt;https://evil|click&gt;" in text for text in shown)
    assert all("> next: x &lt; y" in text for text in shown)
    assert body["alerts"][0]["what"] == said


@pytest.mark.parametrize(
    ("says", "again", "news"),
    [
        ("column address_line1: no number", "column address_line2: no number", True),
        ("/address/line1: no number", "/address/line2: no number", True),
        ("shop.b2b_orders_1 waits", "shop.b2b_orders_2 waits", True),
        ("topic orders-v2 is gone", "topic orders-v3 is gone", True),
        ("12 of 20 records, 5.3 h", "1,300 of 9 records, 17 h", False),
        ("see s3://lake/00012-0b7c/a", "see s3://lake/00013-91fe/a", False),
        ("orders-3 at 10, tried 2s ago", "orders-4 at 12, tried 3s ago", False),
        ("tidemark_batch_a81c9f3e exists", "tidemark_batch_9f3ea81c exists", False),
        (f"run {UUID(int=2**127 + 7)} died", f"run {UUID(int=11 * 2**124)} died", False),
        ("request KX9Q4ABD2Z7M1P3T, id aQ/bC+9x=", "request 4ABDKX9Q2Z7M1P3T, id Zk+/7d/w", False),
    ],
)
def test_other_figures_and_ids_are_no_news_but_other_names_are(says, again, news):
    assert (figureless(says) != figureless(again)) is news


def test_causes_in_another_order_are_no_news_and_another_cause_is():
    """Given a check that names causes, the most frequent first, when their figures change, then it is told once."""
    causes = ("undecodable 3, null_key 1", "null_key 12, undecodable 1", "null_key 2, no_magic_byte 1")
    first, second, third = (
        news_of("WARN", f"4 of 90 records could not enter: {each}; their bytes are kept", None)
        for each in causes
    )
    assert first == second != third


@pytest.mark.parametrize(
    "long", ["ab-" * 50_000 + "9", "a1_" * 50_000 + "+", "-1" * 50_000 + "_", "a1b" * 50_000]
)
def test_words_of_any_length_are_looked_at_once(long):
    began = time.process_time()
    assert figureless(long)
    assert time.process_time() - began < 1
