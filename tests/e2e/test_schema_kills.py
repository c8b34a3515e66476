"""Rule: changes and approvals may die between any two of their commits; repeated, each is made once, and told once."""

import json

import pytest
from headless import change
from topics import ORDER, order

from tidemark.domain.errors import Refused
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.schema.history import history, unfinished


def with_columns(*names):
    """The schema of an order, with texts that may be missing."""
    added = ({"name": name, "type": ["null", "string"], "default": None} for name in names)
    return {**ORDER, "fields": [*ORDER["fields"], *added]}


def told(table):
    """Who changed which columns, by the table's history."""
    state = table.lakehouse.lake.state(table.name)
    assert unfinished(state) == []
    return [(entry["by"], [c["path"] for c in entry["changes"]]) for entry in history(state)]


def logged(table, verb):
    log = table.lakehouse.catalog.load_table("lake.tidemark_operations")
    return log.scan(row_filter=f"table = '{table.name}' AND verb = '{verb}'").to_arrow().num_rows


def die(table, *points):
    for point in points:
        table.start(pause_at=point).dies()


@pytest.mark.long
def test_a_change_of_several_commits_dies_after_each_and_is_told_once(lakehouse):
    """Given a table of format 3 and two new columns, when runs die between the columns and before the history, then the next ends it, also one that has nothing left to change."""
    topic = lakehouse.cluster.topic("grown")
    topic.send([0])
    table = lakehouse.table(topic, format_version=3)
    table.run()
    topic.use(with_columns("note", "tag"))
    topic.send_raw([(b"k", topic.encode({**order(1), "note": "n", "tag": "t"}), 0)])
    die(table, "altering", "altered")
    assert (table.run().state, table.ids()) == ("fresh", [0, 1])
    assert told(table) == [("contract", ["note", "tag"])]
    table.holds_everything()


def waiting(lakehouse, *names):
    """A table of format 3 with new columns that wait for an approval; the verb that gives it."""
    topic = lakehouse.cluster.topic("let_in")
    topic.send([0])
    table = lakehouse.table(topic, format_version=3, schema_changes={"add_column": "review"})
    table.run()
    topic.use(with_columns(*names))
    topic.send_raw([(b"k", topic.encode({**order(1), **dict.fromkeys(names, "x")}), 0)])
    return table, {"verb": "approve", "plan": evolve_now(lakehouse.lake, table.contract, "look").plan.id}


def test_an_approval_dies_amid_its_changes_and_the_same_one_ends_them(lakehouse):
    """Given an approval of two columns that dies after the first, when it is repeated until it ends, then it is one act of one person."""
    table, verb = waiting(lakehouse, "note", "tag")
    lake, contract = lakehouse.lake, table.contract
    table.act(verb, pause_at="altering").dies()
    assert (table.run().state, table.ids()) == ("schema_review", [0])
    table.act(verb, pause_at="altered").dies()
    assert change(lake, contract, "again", **verb)["arguments"]["plan"] == verb["plan"]
    assert (table.run().state, table.ids()) == ("fresh", [0, 1])
    assert told(table) == [("ada", ["note", "tag"])]
    assert logged(table, "approve") == 1
    with pytest.raises(Refused, match="nothing is"):
        change(lake, contract, "again", **verb)


def test_each_part_of_an_approval_that_died_is_an_act_of_its_own(lakehouse):
    """Given an approval of three columns that dies after the first and again after the second, when the same is asked for again, then all are told and logged: what died as one act, the rest as another."""
    table, verb = waiting(lakehouse, "note", "tag", "third")
    for _ in range(2):
        table.act(verb, pause_at="altering").dies()
    change(lakehouse.lake, table.contract, "again", **verb)
    parts = [("ada", ["note", "tag"]), ("ada", ["third"])]
    assert told(table) == parts
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan(row_filter=f"table = '{table.name}'")
    rows = sorted(log.to_arrow().to_pylist(), key=lambda row: row["at"])
    assert [
        (row["by"], [c["path"] for c in json.loads(row["arguments"])["changes"]]) for row in rows
    ] == parts
    assert len({row["run_id"] for row in rows}) == 2
    assert (table.run().state, table.ids()) == ("fresh", [0, 1])


@pytest.mark.long
def test_a_rename_dies_before_and_after_it_and_is_told_and_logged_once(lakehouse):
    topic = lakehouse.cluster.topic("moving")
    topic.send([0])
    old = lakehouse.table(topic)
    old.run()
    new = lakehouse.table(topic, f"{topic.name}_now")
    (lakehouse.contracts / f"{new.name}.yaml").rename(lakehouse.contracts / f"{old.name}.yaml")
    lake = lakehouse.open_lake()
    verb = {"verb": "approve", "plan": evolve_now(lake, new.contract, "look").plan.id}
    new.act(verb, pause_at="renaming").dies()
    assert lakehouse.catalog.table_exists(old.name)
    new.act(verb, pause_at="renamed").dies()
    assert change(lake, new.contract, "again", **verb)["arguments"]["plan"] == verb["plan"]
    assert told(new) == [("ada", [""])]
    assert logged(new, "approve") == 1
    topic.send([1])
    assert (new.run(lake=lake).state, new.ids()) == ("fresh", [0, 1])
    new.holds_everything()
    lake.close()


@pytest.mark.long
def test_an_accepted_flood_dies_at_every_line_and_lets_this_batch_through_alone(lakehouse):
    """Given a flood that was held back, when its acceptance and then its batch die and are repeated, then each record is in one place, and the next flood waits."""
    topic = lakehouse.cluster.topic("flooded")
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(20, 30))
    topic.send_raw([(None, b"poison", 0)] * 10)
    assert table.run().state == "quarantine_flood"
    lake, contract = lakehouse.lake, table.contract
    verb = {"verb": "accept", "what": "quarantine-batch"}
    table.act(verb, pause_at="unrecorded").dies()
    topic.send(range(30, 40))  # behind the batch that was accepted
    topic.send_raw([(None, b"poison", 0)] * 10)
    die(table, "staged", "quarantined")
    assert table.ids() == list(range(20))
    die(table, "published")
    assert table.ids() == list(range(30))
    assert change(lake, contract, "again", **verb)["arguments"]["what"] == "quarantine-batch"
    assert logged(table, "accept") == 1
    with pytest.raises(Refused, match="held no batch back"):
        change(lake, contract, "again", **verb)
    assert (table.run().state, table.ids()) == ("quarantine_flood", list(range(30)))
    change(lake, contract, "again", **verb)
    assert (table.run().state, table.ids()) == ("fresh", list(range(40)))
    assert (table.causes(), logged(table, "accept")) == ({"no_magic_byte": 20}, 2)
    table.holds_everything()
