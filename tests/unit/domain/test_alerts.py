"""An alert says what happened and what to do next, in the shape that chat webhooks take."""

from tidemark.domain.alerts import Alert, message, stopped


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
        "> next: `tidemark plan shop.orders`",
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
    assert "> next: `look`" in few["text"]
    assert "10 more" in few["text"]


def test_text_of_others_neither_pings_nor_links_and_is_whole():
    """Given a message with what Slack takes for a command, then it is shown as it is written; the JSON keeps it."""
    said = "a <> b & <!channel> <https://evil|click>"
    body = message([stopped("t", {"message": said, "next_step": "x < y"}, "r")])
    shown = [body["text"], body["blocks"][1]["text"]["text"]]
    assert all("a &lt;&gt; b &amp; &lt;!channel&gt; &lt;https://evil|click&gt;" in text for text in shown)
    assert all("> next: `x &lt; y`" in text for text in shown)
    assert body["alerts"][0]["what"] == said
