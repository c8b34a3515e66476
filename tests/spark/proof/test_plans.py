"""Rule: what a plan foresees is what happens; a topic is judged by what it holds; a renamed table is never loaded anew."""

import json
from dataclasses import replace

import httpx
import pytest
from lakehouse import Table
from topics import ORDER, order

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Refused, Stopped, TidemarkError
from tidemark.domain.plan.proposal import propose
from tidemark.engine.ingest import quarantine
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee import compatibility_findings, foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.preview.schema_report import schema_report
from tidemark.engine.preview.survey import survey
from tidemark.engine.table import takeover
from tidemark.engine.table.operations import Signature

ANN = Signature("ann", "moved to sales", "run-1")
WITH_NOTE = {
    **ORDER,
    "fields": [
        *ORDER["fields"],
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "by hand"},
    ],
}
OTHER = {
    **ORDER,
    "fields": [
        {**f, "type": ["string", "boolean"]} if f["name"] == "customer" else f for f in ORDER["fields"]
    ],
}


def test_a_sample_is_decoded_against_the_table_as_it_would_be(lakehouse):
    """Given an addition under review, an incompatible writer and a poison record, when sampled, then each record's fate is told and nothing is written."""
    topic = lakehouse.cluster.topic("sampled", 2)
    topic.send(range(10))
    table = lakehouse.table(topic, schema_changes={"add_column": "review"})
    table.run()
    topic.use(WITH_NOTE)
    topic.send_raw([(b"k", topic.encode({**order(10), "note": "x"}), 0)])
    topic.use(OTHER)
    topic.send_raw([(b"k", topic.encode({**order(11), "customer": True}), 0)])
    topic.send_raw([(b"k", b"no order", 1), (b"k", None, 1)])
    head = table.head
    found = foresee(lakehouse.lake, table.contract, sample=1000).as_json()
    assert (found["verdict"], found["affects"]) == ("review", [table.name.replace(".", "/")])
    assert [(c["kind"], c["path"]) for c in found["changes"]] == [
        ("add_column", "note"),
        ("incompatible", "customer"),
    ]
    sample = found["sample"]
    assert [sample[k] for k in ("records", "written", "quarantined", "tombstones", "waiting")] == [
        14,
        11,
        1,
        1,
        1,
    ]
    assert [(c["cause"], c["count"], c["partition"]) for c in sample["causes"]] == [
        ("no_magic_byte", 1, 1),
        ("schema_review", 1, 0),
    ]
    assert table.head == head


def test_a_table_renamed_in_the_contract_is_renamed_once_approved_and_goes_on(lakehouse):
    topic = lakehouse.cluster.topic("renamed")
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    old = lakehouse.table(topic, quarantine={"fail": 0.5}, upsert=["id"])
    old.run()
    catch_up_merges(lakehouse.lake, upsert_table_of(old.contract), "test")
    new = lakehouse.table(topic, f"{topic.name}_now", quarantine={"fail": 0.5}, upsert=["id"])
    (lakehouse.contracts / f"{new.name}.yaml").rename(lakehouse.contracts / f"{old.name}.yaml")
    topic.send(range(20, 30))
    lake = lakehouse.open_lake()
    waits = new.run(lake=lake)
    assert waits.state == "schema_review"
    assert not lakehouse.catalog.table_exists(new.name)
    plan = foresee(lake, new.contract)
    assert [(c["kind"], c["from"], c["verdict"]) for c in plan.changes] == [("rename", old.name, "review")]
    assert f"{old.name}_current to {new.name}_current" in plan.changes[0]["reason"]
    assert waits.error["plan"] == plan.plan
    approve(lake, new.contract, plan.plan, ANN)
    assert new.run(lake=lake).state == "fresh"
    assert new.ids() == list(range(30))
    assert new.holds_everything().quarantined == 1
    merged = catch_up_merges(lake, upsert_table_of(new.contract), "test")
    assert (merged.state, merged.changes.read, merged.changes.inserted) == ("fresh", 10, 10)
    assert lakehouse.catalog.load_table(f"{new.name}_current").scan().count() == 30
    assert foresee_upsert(lake, upsert_table_of(new.contract)).changes == ()
    told = schema_report(lake, new.contract)
    assert [(e["by"], e["changes"][0]["kind"]) for e in told["history"]] == [("ann", "rename")]
    assert {c["path"]: c["type"] for c in told["columns"]}["amount"] == "double"
    with pytest.raises(Refused, match="has never been loaded"):
        schema_report(lake, lakehouse.table(lakehouse.cluster.topic("nothing")).contract)
    lake.close()


def test_a_rename_that_died_half_way_leaves_nothing_to_write_to_under_the_old_name(lakehouse, monkeypatch):
    """Given a rename that has moved the quarantine alone, when a run has the old name still, then it stops and says how to go on; completed, no record is lost."""
    topic = lakehouse.cluster.topic("half")
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    old = lakehouse.table(topic, quarantine={"fail": 0.5})
    old.run()
    topic.send(range(20, 25))
    old.run()  # the newest receipt has nothing in quarantine
    file = lakehouse.contracts / f"{old.name}.yaml"
    was = file.read_text()
    new = lakehouse.table(topic, f"{topic.name}_now", quarantine={"fail": 0.5})
    (lakehouse.contracts / f"{new.name}.yaml").rename(file)
    lake = lakehouse.open_lake()
    plan = foresee(lake, new.contract).plan
    with monkeypatch.context() as dying:
        dying.setattr(takeover, "_remember_upsert", lambda *_: 1 / 0)
        with pytest.raises(TidemarkError):
            approve(lake, new.contract, plan, ANN)
    lake.close()
    assert lakehouse.catalog.table_exists(f"{new.name}_quarantine")
    assert lakehouse.catalog.table_exists(old.name)
    now = file.read_text()
    file.write_text(was)
    topic.send(range(25, 30))
    topic.send_raw([(None, b"worse", 0)])
    lake = lakehouse.open_lake()
    stopped = old.run(lake=lake)
    assert (stopped.state, "half done" in stopped.error["message"]) == ("schema_review", True), stopped
    assert "approve its plan again" in stopped.error["next_step"]
    with pytest.raises(Stopped, match="half done"):
        quarantine.ensure(lake, old.contract)  # what a run that began before the rename would do
    lake.close()
    file.write_text(now)
    lake = lakehouse.open_lake()
    approve(lake, new.contract, plan, ANN)
    assert new.run(lake=lake).state == "fresh"
    assert new.ids() == list(range(30))
    assert new.holds_everything().quarantined == 2
    lakehouse.spark().sql(
        f"CREATE TABLE lake.{old.name}_quarantine AS SELECT * FROM lake.{new.name}_quarantine"
    )
    lake.close()
    file.write_text(was)
    lake = lakehouse.open_lake()
    [change] = foresee(lake, old.contract).changes
    assert (change["verdict"], "both exist" in change["reason"]) == ("impossible", True)
    lake.close()


def test_the_name_that_a_table_has_left_is_its_own_and_nobody_else_s(lakehouse):
    """Given a renamed table, when another topic's contract has its old name, which runs have loaded, then neither run nor acceptance makes a table in its folder; when its own contract has that name again, then it is renamed back."""
    topic, other = (lakehouse.cluster.topic(name) for name in ("left", "squatter"))
    topic.send(range(10))
    other.send(range(3))

    def declared(file, source, short):
        table = Table(lakehouse, source, f"proof.{short}")
        (lakehouse.contracts / f"{file}.yaml").write_text(f"topic: {source.name}\ntable: {table.name}\n")
        lakehouse.close()  # a process of its own, which reads the contracts anew
        return table

    def approved(table):
        waits = table.run(loaded_before=True)
        assert waits.state == "schema_review"
        approve(lakehouse.lake, table.contract, waits.error["plan"], ANN)
        return table

    declared("ours", topic, "left").run()
    new = approved(declared("ours", topic, "left_now"))
    squatter = declared("theirs", other, "left")
    assert squatter.run(loaded_before=True).state == "misconfigured"
    for dry_run in (True, False):
        with pytest.raises(Stopped, match=f"{new.name} had this name before"):
            accept(lakehouse.lake, squatter.contract, "first-load", replace(ANN, dry_run=dry_run))
    assert not lakehouse.catalog.table_exists(squatter.name)
    (lakehouse.contracts / "theirs.yaml").unlink()
    back = approved(declared("ours", topic, "left"))
    topic.send(range(10, 15))
    assert back.run(loaded_before=True).rows.written == 5
    assert back.ids() == list(range(15))
    assert declared("theirs", other, "left_now").run().rows.written == 3, "that folder is free"


def test_a_topic_without_a_contract_is_told_by_its_schema_or_its_records(lakehouse):
    lake, cluster = lakehouse.lake, lakehouse.cluster

    def proposed(topic):
        found = survey(lake, topic.name, "main", 100)
        return propose(found)

    registered = cluster.topic("new_avro", 2)
    registered.send(range(40))
    made = proposed(registered)
    assert made.fits
    assert dict(made.contract) == {
        "topic": registered.name,
        "event_time": "at",
        "partition_by": ["month(at)"],
    }
    told = made.as_json()
    assert (told["size"]["records"], told["size"]["records_per_day"], told["keys"]["unique"]) == (40, 40, 1.0)

    plain = bare(cluster, "new_json")
    documents = [
        {"id": n, "at": "2026-01-01T00:00:00Z", "tags": ["a"], "mixed": n if n % 2 else "x"} for n in range(9)
    ]
    plain.send_raw((str(d["id"]).encode(), json.dumps(d).encode(), 0) for d in documents)
    made = proposed(plain)
    assert made.contract["value"] == {
        "format": "json",
        "fields": {"id": "bigint", "at": "timestamp", "tags": "array<string>"},
    }
    assert made.seen.keys.columns == ("id",)
    assert any("mixed is not declared" in reason.text for reason in made.reasons)

    text = bare(cluster, "new_text")
    text.send_raw([(None, "grüß {".encode(), 0)])
    assert proposed(text).contract["value"] == {"format": "string"}
    octets = bare(cluster, "new_raw")
    octets.send_raw([(None, b"\xff\x00", 0), (None, None, 0)])
    assert proposed(octets).contract["value"] == {"format": "raw"}
    made = proposed(bare(cluster, "new_empty"))
    assert not made.fits
    assert "empty" in made.reasons[0].text

    foreign = cluster.topic("new_foreign")
    foreign.send_raw([(None, b"plain text", 0)])
    assert "begin with no schema id" in proposed(foreign).reasons[0].text
    with pytest.raises(Refused) as missing:
        survey(lake, registered.name[:-1], "main", 10)
    assert registered.name in missing.value.next_step


def bare(cluster, name):
    """A topic that the registry knows nothing of."""
    from uuid import uuid4  # noqa: PLC0415 - used here alone

    from topics import Topic  # noqa: PLC0415

    topic = Topic(cluster, f"{name}_{uuid4().hex[:6]}", ORDER)
    topic.create(1)
    return topic


def test_a_subject_that_lets_in_what_the_contract_holds_up_is_a_finding(lakehouse):
    """Given the registry's mode BACKWARD, then NONE for the subject alone, when looked at, then only NONE disagrees with the contract."""
    topic = lakehouse.cluster.topic("compatible")
    table = lakehouse.table(topic)
    assert compatibility_findings(lakehouse.lake, table.contract) == ()
    careful = lakehouse.table(topic, schema_changes={"add_column": "review"})
    [additions] = compatibility_findings(lakehouse.lake, careful.contract)
    assert additions.startswith("the registry (BACKWARD) lets producers register new fields")
    root = lakehouse.cluster.registry_url.removesuffix("/apis/ccompat/v7")
    rules = f"{root}/apis/registry/v2/groups/default/artifacts/{topic.name}-value/rules"
    rule = {"type": "COMPATIBILITY", "config": "NONE"}  # ccompat's NONE falls back on the registry's mode
    httpx.post(rules, json=rule, trust_env=False, timeout=30).raise_for_status()
    table = lakehouse.table(topic)
    [finding] = compatibility_findings(lakehouse.lake, table.contract)
    assert finding.startswith("the registry (NONE) lets producers register incompatible schemas")
