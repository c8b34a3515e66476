"""The command line on history: load it, compare it, say where it is, and rehearse what may go wrong."""

import pytest
from command_line import cli
from topics import ORDER, order

SIGNED = ("--by", "ada", "--reason", "a test")


@pytest.mark.long
def test_history_is_loaded_compared_found_and_a_failure_rehearsed(lakehouse):
    """Given a table that began late, when its history is loaded by the command line, then copy and table compare equal until one row is gone."""
    topic = lakehouse.cluster.topic("told", 1)
    topic.send(range(20))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    topic.send(range(20, 30))
    table.run()
    spark, copy = lakehouse.spark(), f"{table.name}_copy"

    span = ("--from", "2020-01-01", "--to", "2040-01-01")
    code, seen = cli(lakehouse, "backfill", table.name, *span, *SIGNED, "--dry-run")
    assert (code, seen["arguments"]["step"], seen["arguments"]["offsets_in_all"]) == (0, "plan", 30)
    code, done = cli(lakehouse, "backfill", table.name, *span, *SIGNED, "--cutover")
    assert (code, done["arguments"]["step"], done["arguments"]["cutover"]["rows"]) == (0, "cutover", 30)
    assert table.ids() == list(range(30))
    code, (found,) = cli(lakehouse, "where", topic.name, "0:5")
    assert (code, found["fate"]) == (0, "published")

    spark.sql(f"CREATE TABLE lake.{copy} USING iceberg AS SELECT * FROM lake.{table.name}")
    assert cli(lakehouse, "compare", table.name, copy)[0] == 0
    spark.sql(f"DELETE FROM lake.{copy} WHERE id = 7")
    code, differs = cli(lakehouse, "compare", table.name, copy, "--key", "id")
    assert (code, differs["differences"]["only_in_table"]) == (1, 1)

    code, card = cli(lakehouse, "drill", "--scenario", "poison", *SIGNED)
    assert (code, card["passed"]) == (0, True), card
    assert [each["noticed_as"] for each in card["scenarios"]] == ["quarantined"]


def test_a_backfill_that_was_loaded_is_cut_over_by_a_command_of_its_own(lakehouse):
    """Given columns with the names of any helper's, when history is loaded by one command, then another publishes it."""
    names = ("p", "first", "upto", "n")
    fields = [*ORDER["fields"], *({"name": name, "type": "int"} for name in names)]
    topic = lakehouse.cluster.topic("in_steps", schema={**ORDER, "fields": fields})

    def send(numbers):
        topic.send_raw((None, topic.encode({**order(n), **dict.fromkeys(names, n)}), 0) for n in numbers)

    send(range(10))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    send(range(10, 20))
    table.run()
    span = ("--from", "2020-01-01", "--to", "2040-01-01")
    code, loaded = cli(lakehouse, "backfill", table.name, *span, *SIGNED)
    assert (code, loaded["arguments"]["step"], loaded["arguments"]["rows"]) == (0, "load", 20)
    assert cli(lakehouse, "status", table.name)[1][0]["backfill_under_way"] is True
    code, done = cli(lakehouse, "backfill", table.name, "--cutover", *SIGNED)
    assert (code, done["arguments"]["step"], done["arguments"]["cutover"]["rows"]) == (0, "cutover", 20)
    assert "backfill_under_way" not in cli(lakehouse, "status", table.name)[1][0]
    assert table.ids() == list(range(20))


def test_a_key_that_looks_like_hexadecimal_is_looked_for_both_ways(lakehouse):
    """Given the key A, a text that spells its byte and a key that is no text, when asked for as printed, then each is found and told apart."""
    topic = lakehouse.cluster.topic("spelled", 1)
    topic.send_raw((key, topic.encode(order(n)), 0) for n, key in enumerate([b"A", b"0x41", b"\xff"]))
    lakehouse.table(topic).run()

    def found(key):
        code, answers = cli(lakehouse, "where", topic.name, "--key", key)
        assert code == 0
        return {each["offset"]: (each["record"]["key"], each["record"]["key_hex"]) for each in answers}

    assert found("A") == {0: ("A", "41")}
    assert found("0x41") == {0: ("A", "41"), 1: ("0x41", "30783431")}
    assert found("0x30783431") == {1: ("0x41", "30783431")}
    assert found("0xff") == {2: ("0xff", "ff")}
