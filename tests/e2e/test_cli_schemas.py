"""The command line on schemas, from a topic nobody knows to an approved change: exit codes are what a CI gate goes by."""

import yaml
from command_line import cli
from lakehouse import Table
from topics import ORDER, order

WITH_NOTE = {
    **ORDER,
    "fields": [
        *ORDER["fields"],
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "by hand"},
    ],
}


def test_from_an_unknown_topic_to_an_approved_change(lakehouse):
    """Given a topic, when its contract is proposed, its schema grows and a stranger, then an approver lets it in, then each command says so."""
    topic = lakehouse.cluster.topic("cli_schemas")
    topic.send(range(5))
    code, told = cli(lakehouse, "new", topic.name)
    assert (code, told["fit"], told["written"], told["size"]["records"]) == (0, True, True, 5)
    assert cli(lakehouse, "new", topic.name)[0] == 2
    assert cli(lakehouse, "check")[0] == 0
    name = told["table"]
    code, [plan] = cli(lakehouse, "plan", name, "--sample", "3")
    assert (code, plan["verdict"], [c["kind"] for c in plan["changes"]]) == (0, "apply", ["create_table"])
    assert (plan["sample"]["records"], plan["sample"]["written"]) == (3, 3)
    table = Table(lakehouse, topic, name)
    assert table.run().rows.written == 5

    file = lakehouse.contracts / f"{topic.name}.yaml"
    said = yaml.safe_load(file.read_text())
    policy = {"approvers": ["ann@shop.example"], "schema_changes": {"add_column": "review"}}
    file.write_text(yaml.safe_dump({**said, **policy}))
    assert cli(lakehouse, "plan", name)[0] == 0
    topic.use(WITH_NOTE)
    topic.send_raw([(b"k", topic.encode({**order(5), "note": "x"}), 0), (None, b"poison", 0)])
    code, [plan] = cli(lakehouse, "plan", name, "--sample", "2")
    assert (code, plan["verdict"], plan["affects"]) == (1, "review", [name.replace(".", "/")])
    assert ("add_column", "note", "review") in {(c["kind"], c["path"], c["verdict"]) for c in plan["changes"]}
    assert (plan["sample"]["written"], plan["sample"]["quarantined"]) == (1, 1)
    assert table.run().state == "schema_review"

    words = ("approve", name, plan["plan"], "--reason", "wanted", "--by")
    code, refused = cli(lakehouse, *words, "mallory@shop.example")
    assert (code, refused["error"]["kind"]) == (2, "Refused")
    assert "mallory@shop.example may not approve" in refused["error"]["message"]
    assert cli(lakehouse, "plan", name)[0] == 1
    code, done = cli(lakehouse, *words, "ann@shop.example")
    assert (code, done["by"], done["verb"]) == (0, "ann@shop.example", "approve")

    code, [plan] = cli(lakehouse, "plan", name)
    assert (code, plan["verdict"]) == (0, "nothing")
    assert table.run().rows[1:3] == (1, 1)
    code, schema = cli(lakehouse, "schema", name)
    assert code == 0
    [note] = [c for c in schema["columns"] if c["path"] == "note"]
    assert (note["type"], note["doc"]) == ("string", "by hand")
    entry = schema["history"][-1]
    assert (entry["by"], entry["reason"], [c["path"] for c in entry["changes"]]) == (
        "ann@shop.example",
        "wanted",
        ["note"],
    )
    assert cli(lakehouse, "schema", f"{name}_gone")[0] == 2

    file.unlink()
    (lakehouse.contracts / "other.yaml").write_text("topic: no_such_topic")
    code, plans = cli(lakehouse, "plan")
    [released] = [each for each in plans if each["table"] == name]
    assert (code, [(c["kind"], c["verdict"]) for c in released["changes"]]) == (0, [("release", "apply")])
    assert lakehouse.lake.state(name).rows == 6
