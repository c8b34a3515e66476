"""The command line as another program uses it: exit codes, JSON, and what it does to real tables."""

import signal
import time
import uuid
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from command_line import cli, dagster_runs
from lakehouse import Run, Table
from topics import ORDER, Topic

from tidemark.engine.look import sightings

POISON = [(None, b"no order", 0)]
OUT_OF_REACH = "http://127.0.0.1:9"
"""A proxy for the world outside, which has no say in what listens here."""


def test_from_a_topic_to_a_table_that_is_fresh_and_reconciled(lakehouse):
    topic = lakehouse.cluster.topic("cli_whole", 2)
    topic.send(range(100))
    topic.send_raw(POISON)
    topic.send_tombstones(range(3))
    table = lakehouse.table(topic, quarantine={"fail": 0.5})

    code, (before,) = cli(lakehouse, "status", table.name)
    assert (code, before["state"], before["lag_records"]) == (0, "lagging", 104)

    code, (dry,) = cli(lakehouse, "run", table.name, "--dry-run")
    assert (code, dry["state"], dry["commits"], dry["error"]) == (0, "lagging", 0, None)

    code, (outcome,) = cli(lakehouse, "run", table.name, http_proxy=OUT_OF_REACH, no_proxy="", NO_PROXY="")
    assert (code, outcome["state"], outcome["error"], outcome["table"]) == (0, "fresh", None, table.name)
    assert (dry["from"], dry["next"]) == (outcome["from"], outcome["next"])
    assert outcome["rows"] == {
        "read": 104,
        "written": 100,
        "quarantined": 1,
        "tombstones": 3,
        "skipped": 0,
    }
    assert outcome["next"] == {"0": 53, "1": 51}
    assert dagster_runs(lakehouse, table.name) == ["SUCCESS"]

    code, (after,) = cli(lakehouse, "status", table.name)
    assert (code, after["state"], after["lag_records"], after["rows"]) == (0, "fresh", 0, 100)
    assert (after["next"], after["quarantined"], after["snapshot_id"]) == (after["end"], 1, table.head)

    code, (cause,) = cli(lakehouse, "status", table.name, "--quarantine")
    assert (code, cause["cause"], cause["count"], cause["resolved"]) == (0, "no_magic_byte", 1, 0)

    code, counts = cli(lakehouse, "reconcile", table.name)
    assert code == 0
    assert [c["kafka_records"] for c in counts] == [53, 51]
    assert sum(c["rows"] for c in counts) == 100
    assert sum(c["tombstones"] for c in counts) == 3
    assert all(c["gaps"] == c["duplicates"] == [] for c in counts)
    assert table.holds_everything().quarantined == 1


def test_topics_that_match_a_pattern_are_found_by_the_commands_themselves(lakehouse):
    """Given one contract for many topics and no Dagster, when topics come, then the next command knows them and the next run loads them."""
    family = f"family{uuid.uuid4().hex[:6]}"
    (lakehouse.contracts / "family.yaml").write_text(
        f"topics: '^{family}[.](?P<name>.*)$'\ntable: proof.{family}_{{name}}\n"
    )
    code, refusal = cli(lakehouse, "run")
    assert (code, refusal["error"]["message"].partition(" (")[0]) == (
        2,
        f"no topic is called like ^{family}[.](?P<name>.*)$",
    )

    def comes(name, ids):
        topic = Topic(lakehouse.cluster, f"{family}.{name}", ORDER)
        topic.create(1)
        topic.use(ORDER)
        topic.send(ids)
        return Table(lakehouse, topic, f"proof.{family}_{name}")

    first, second = comes("a", range(5)), comes("b", range(7))
    code, refusal = cli(lakehouse, "new", first.topic.name)
    assert (code, f"it makes {first.name}" in refusal["error"]["message"]) == (2, True)
    assert not (lakehouse.contracts / f"{first.topic.name}.yaml").exists()
    code, planned = cli(lakehouse, "plan")
    assert (code, {each["table"] for each in planned} >= {first.name, second.name}) == (0, True)
    third = comes("c", range(9))
    code, outcomes = cli(lakehouse, "run")
    assert (code, {each["state"] for each in outcomes}) == (0, {"fresh"})
    assert [table.ids() for table in (first, second, third)] == [[*range(5)], [*range(7)], [*range(9)]]

    second.topic.delete()
    for verb in ("run", "status"):
        code, (told,) = cli(lakehouse, verb, second.name)
        assert (code, told["state"]) == (1, "topic_missing"), "a table does not vanish with its topic"
    assert [each["table"] for each in cli(lakehouse, "plan", second.name)[1]] == [second.name]
    lakehouse.catalog.drop_table(second.name)
    assert cli(lakehouse, "status", second.name)[0] == 2, "nothing is left of it"


def test_a_table_that_stops_is_a_finding_and_the_others_are_loaded(lakehouse):
    topic = lakehouse.cluster.topic("cli_good")
    topic.send(range(10))
    good = lakehouse.table(topic)
    gone = lakehouse.cluster.topic("cli_gone")
    bad = lakehouse.table(gone)
    gone.delete()
    code, outcomes = cli(lakehouse, "run")
    by_table = {each["table"]: each for each in outcomes}
    assert code == 1
    assert by_table[good.name]["error"] is None
    assert by_table[bad.name]["state"] == by_table[bad.name]["error"]["state"] == "topic_missing"
    assert by_table[bad.name]["error"]["next_step"]
    assert good.ids() == list(range(10))
    code, (worst, _) = cli(lakehouse, "status")
    assert (code, worst["table"], worst["state"]) == (1, bad.name, "topic_missing")
    assert [each["table"] for each in cli(lakehouse, "status", "--not-fresh")[1]] == [bad.name]
    assert cli(lakehouse, "status", "--not-fresh", good.name) == (0, [])


def test_a_table_that_somebody_has_dropped_is_missing_for_every_verb(lakehouse):
    """Given two tables, when the one that was loaded is dropped, then no verb takes it for the one that never was."""
    topic = lakehouse.cluster.topic("cli_dropped")
    topic.send(range(10))
    table, never = lakehouse.table(topic), lakehouse.table(lakehouse.cluster.topic("cli_never"))
    assert cli(lakehouse, "run", table.name)[0] == 0
    lakehouse.spark().sql(f"DROP TABLE {table.name} PURGE")
    signed = ("--reason", "a test")
    verbs = {
        "pause": signed,
        "replay": ("--quarantine", *signed),
        "rollback": ("--snapshot", "1", *signed),
        "backfill": ("--abort", *signed),
        "accept": ("--new-epoch", *signed),
        "maintain": signed,
        "reconcile": (),
        "schema": (),
    }
    one_of_each = {"pause", "reconcile"}  # acts, looks: all ask the same of a table that is not there
    for verb, words in verbs.items():
        code, told = cli(lakehouse, verb, table.name, *words)
        assert (code, told["error"].get("state")) == (1, "table_missing"), (verb, told)
        assert f"tidemark accept {table.name} --first-load" in told["error"]["next_step"]
        if verb in one_of_each:
            code, told = cli(lakehouse, verb, never.name, *words)
            assert (code, told["error"]["message"]) == (2, f"{never.name} has never been loaded"), verb
    assert cli(lakehouse, "maintain", never.name, *signed)[0] == 0


@pytest.mark.parametrize("sent", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_an_interrupted_run_ends_soon_and_says_how_far_it_came(lakehouse, sent):
    """Given a run in the middle of its batch, when it is interrupted, then it ends by itself, canceled, and the next one completes."""
    topic = lakehouse.cluster.topic("cli_interrupted")
    topic.send(range(400))
    table = lakehouse.table(topic)
    run = Run.start(lakehouse, [table.name, "--json"], command=["run"], pause_at="staged")
    run.reaches_its_pause()
    run.process.send_signal(sent)
    run.release()
    (outcome,) = run.result(30)
    assert run.process.returncode == 130
    assert outcome["error"]["kind"] == "Unfinished"
    assert outcome["rows"]["written"] == len(table.ids()) == outcome["next"]["0"]
    assert dagster_runs(lakehouse, table.name) == ["CANCELED"]
    assert table.run().state == "fresh"
    assert table.ids() == list(range(400))


def test_pause_is_kept_until_resume_and_both_are_logged(lakehouse):
    topic = lakehouse.cluster.topic("cli_paused")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(10, 20))
    code, planned = cli(lakehouse, "pause", table.name, "--reason", "look", "--dry-run")
    assert (code, planned["arguments"]["dry_run"]) == (0, True)
    assert cli(lakehouse, "pause", table.name, "--reason", "look", "--by", "ann")[0] == 0
    code, refused = cli(lakehouse, "pause", table.name, "--reason", "again")
    assert (code, refused["error"]["kind"]) == (2, "Refused")
    cli(lakehouse, "run", table.name)
    assert table.ids() == list(range(10))
    looked = datetime.now(UTC)  # no sensor, and no status yet: the run has seen what it left
    [paused] = cli(lakehouse, "status", table.name)[1]
    assert (paused["state"], paused["lag_records"]) == ("paused", 10)
    assert sightings.read(lakehouse.home)[table.name].sightings()[0].at < looked
    assert cli(lakehouse, "resume", table.name, "--reason", "done", TIDEMARK_USER="bob")[0] == 0
    table.run()
    assert table.ids() == list(range(20))
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan().to_arrow().to_pylist()
    found = [(row["verb"], row["by"], row["reason"]) for row in log if row["table"] == table.name]
    assert sorted(found) == [("pause", "ann", "look"), ("resume", "bob", "done")]


def test_maintain_says_what_it_would_do_then_does_it_and_is_logged_once(lakehouse):
    topic = lakehouse.cluster.topic("cli_maintained")
    soon = {"snapshots": {"max_age": "1s", "min_keep": 1}}
    table = lakehouse.table(topic, maintenance=soon)
    for batch in range(3):
        topic.send(range(batch * 10, batch * 10 + 10))
        assert table.run().error is None
    head, before = table.head, table.snapshots
    time.sleep(1)
    code, planned = cli(lakehouse, "maintain", table.name, "--snapshots", "--dry-run")
    (found,) = [each for each in planned["arguments"]["found"] if each["table"] == table.name]
    assert (code, planned["arguments"]["dry_run"], found["acted"]) == (0, True, False)
    assert (table.head, table.snapshots) == (head, before)
    code, done = cli(lakehouse, "maintain", table.name, "--snapshots", "--reason", "small", "--by", "ann")
    (acted,) = [each for each in done["arguments"]["found"] if each["acted"]]
    assert (code, acted["table"], acted["kind"]) == (0, table.name, "snapshot_expiry")
    assert table.snapshots == acted["snapshots_after"] == before - found["expirable"]
    assert (table.head, table.ids()) == (head, list(range(30)))
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan().to_arrow().to_pylist()
    logged = [(row["verb"], row["by"], row["reason"]) for row in log if row["table"] == table.name]
    assert logged == [("maintain", "ann", "small")]


def test_a_recreated_topic_stops_status_says_so_and_accept_resolves_it(lakehouse):
    topic = lakehouse.cluster.topic("cli_again")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    topic.recreate(1)
    topic.send(range(100, 130))
    code, (found,) = cli(lakehouse, "status", table.name)
    assert (code, found["state"]) == (1, "topic_recreated")
    assert "accept" in found["remedy"]
    code, (outcome,) = cli(lakehouse, "run", table.name)
    assert (code, outcome["state"]) == (1, "topic_recreated")
    code, error = cli(lakehouse, "reconcile", table.name)
    assert (code, error["error"]["state"]) == (1, "topic_recreated")
    assert cli(lakehouse, "accept", table.name, "--new-epoch", "--reason", "moved")[0] == 0
    assert table.run().state == "fresh"
    assert table.ids() == [*range(10), *range(100, 130)]
    code, (count,) = cli(lakehouse, "reconcile", table.name)
    assert (code, count["from"], count["to"], count["rows"]) == (0, 0, 30, 30)


def test_reconcile_finds_what_someone_took_and_what_someone_doubled(lakehouse):
    """Given a sound table, when rows are deleted and copied behind Tidemark's back, then `reconcile` names the very offsets."""
    topic = lakehouse.cluster.topic("audited", 2)
    topic.send(range(100))
    topic.send_tombstones(range(4))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic)
    table.run()
    code, counts = cli(lakehouse, "reconcile", table.name)
    assert (code, [(c["rows"], c["quarantined"], c["tombstones"]) for c in counts]) == (
        0,
        [(50, 1, 2), (50, 0, 2)],
    )
    spark = lakehouse.spark()
    spark.sql(
        f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE _kafka.partition = 1 AND _kafka.offset = 7"
    )
    spark.sql(f"DELETE FROM {table.name} WHERE _kafka.partition = 0 AND _kafka.offset BETWEEN 10 AND 12")
    code, (first, second) = cli(lakehouse, "reconcile", table.name)
    assert code == 1
    assert (first["gaps"], first["duplicates"]) == ([[10, 13]], [])
    assert (second["gaps"], second["duplicates"]) == ([], [[7, 8]])
    assert [(c["kafka_records"], c["rows"]) for c in (first, second)] == [(53, 47), (52, 50)]
    assert [(c["never_committed"], c["beyond"]) for c in (first, second)] == [([], 0)] * 2
    with pytest.raises(AssertionError, match=r"partition 0: neither in .*: 3 offsets: 10–12") as told:
        table.holds_everything()
    assert "partition 1: twice in the table: 1 offsets: 7" in str(told.value)


def test_reconcile_tells_of_rows_that_the_ledger_does_not_cover(lakehouse):
    """Given rows of offsets that were never read, one of them in a partition that the ledger does not know, when the table is reconciled, then they are a finding, and it is told where they are."""
    topic = lakehouse.cluster.topic("cli_beyond")
    topic.send(range(5))
    table = lakehouse.table(topic)
    table.run()
    row = table.iceberg().scan(row_filter="id = 3").to_arrow()

    def at(partition, offset):
        (kafka,) = row.column("_kafka").to_pylist()
        column = pa.array(
            [{**kafka, "partition": partition, "offset": offset}], row.schema.field("_kafka").type
        )
        return row.set_column(row.schema.get_field_index("_kafka"), row.schema.field("_kafka"), column)

    table.iceberg().append(pa.concat_tables([at(0, 5), at(0, 9), at(7, 9)]))
    code, counts = cli(lakehouse, "reconcile", table.name)
    assert code == 1
    told = [(c["partition"], c["from"], c["to"], c["gaps"], c["beyond"]) for c in counts]
    assert told == [(0, 0, 5, [], 2), (7, 0, 0, [], 1)]


def test_holes_of_transactions_and_an_expired_log_are_no_gaps(lakehouse):
    topic = lakehouse.cluster.topic("cli_holes")
    topic.send(range(10))
    with topic.transaction(abort=True) as lost:
        lost.send(range(900, 905))
    with topic.transaction() as kept:
        kept.send(range(10, 20))
    table = lakehouse.table(topic)
    table.run()
    code, (count,) = cli(lakehouse, "reconcile", table.name)
    assert (code, count["kafka_records"], count["rows"], count["gaps"]) == (0, 20, 20, [])
    topic.delete_records({0: 5})
    code, (count,) = cli(lakehouse, "reconcile", table.name)
    assert (code, count["from"], count["kafka_records"], count["rows"]) == (0, 5, 15, 15)
