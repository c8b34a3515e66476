"""Rule: what is not known of a record is said, not guessed."""

from tidemark.domain.ledger.fate import by_offset
from tidemark.domain.ledger.guard import Topic


def test_a_fate_says_when_kafka_could_not_be_asked() -> None:
    """Given a record that the table has not read, when Kafka does not answer, then `not yet` says that nobody knows whether there is one."""
    topic = Topic("orders", "c", "t", {0: 0}, {0: 9}, {0: 9})
    assert by_offset(None, topic, 0, 3) == ("not_yet", "the table has read up to 0")
    fate, why = by_offset(None, None, 0, 3) or ("", "")
    assert fate == "not_yet"
    assert "Kafka could not be asked" in why
