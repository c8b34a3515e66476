"""Rule: history enters once, in one commit, with a published time; what was not published leaves nothing behind."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

import oracle
import pyarrow as pa
import pytest
from dying import Died
from pyarrow import parquet
from topics import BEGAN, ORDER, order
from waiting import until

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.look.backfills import backfilled
from tidemark.engine.maintain.expire import expire
from tidemark.engine.maintain.named_snapshots import Named
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.backfill import act
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.backfill.shadow import drop_shadow
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_key

ADA = Signature("ada", "a test", run_id="backfill-1")
DRY = Signature("ada", "a test", dry_run=True)
AGES = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
DAY = datetime.fromtimestamp(BEGAN / 1e6, UTC)


def done(table, signature=ADA, lake=None, **asked):
    known = lake or table.lakehouse.lake
    return backfill(known, table.contract, Asked(**asked), signature).as_json()["arguments"]


def with_old_cluster(lakehouse):
    """The platform with a second Kafka cluster, whose broker is the same."""
    known = lakehouse.configuration()
    both = {
        name: {**getattr(known.platform, name), "old": getattr(known.platform, name)["main"]}
        for name in ("kafka", "schema_registry")
    }
    return Lake(replace(known, platform=known.platform.model_copy(update=both)))


@pytest.fixture
def late(lakehouse):
    """Sixty orders, two poison records and a tombstone before a table that began at `latest`; forty orders after."""
    topic = lakehouse.cluster.topic("late", 2)
    topic.send(range(60))
    topic.send_raw([(None, b"poison", 0), (b"7", None, 1), (None, b"poison", 1)])
    table = lakehouse.table(topic, ingest={"start": "latest"}, quarantine={"fail": 0.5})
    table.run()
    topic.send(range(60, 100))
    assert table.run().rows.written == 40
    return table


def test_what_lies_before_the_first_load_is_loaded_beside_the_ingest(lakehouse, late):
    """Given a table that began late, when its topic's history is loaded in windows, stopped, taken up again and cut over, then every offset is there once."""
    seen = done(late, DRY, since=AGES[0], until=AGES[1])
    assert (seen["step"], seen["offsets_in_all"], late.head) == ("plan", 103, late.head)
    told = []
    with pytest.raises(Refused, match="nothing of a backfill of"):
        done(late, cutover=True)
    part = done(late, since=AGES[0], until=AGES[1], max_records=40, pace=Pace(say=told.append))
    assert (part["step"], part["rows"], late.ids()) == ("load", 100, list(range(60, 100)))
    assert told[-1] == "103 records loaded, 0 offsets to go"
    assert (part["windows_equal"], part["windows_different"]) == (1, 2), part["windows"]
    assert lakehouse.catalog.table_exists(f"{late.name}_backfill_quarantine")
    with pytest.raises(Refused, match="another backfill"):
        done(late, since=AGES[0], until=AGES[1], source="topic:elsewhere")
    assert backfilled(lakehouse.lake, ["other.table", late.name]) == [late.name]
    late.topic.send(range(100, 110))
    late.run()
    head = late.head
    would = done(late, DRY, cutover=True)
    assert (would["step"], would["rows"], would["offsets_left"], late.head) == ("cutover", 100, 0, head)
    assert (would["windows"], would["resumes"]) == (part["windows"], True)
    whole = done(late, replace(ADA, authenticated="ada@corp"), cutover=True)
    assert (whole["loaded_now"], whole["cutover"]["rows"], whole["cutover"]["by"]) == (0, 100, "ada@corp")
    assert late.iceberg().properties["tidemark.cutover"]
    assert late.ids() == list(range(110))
    verdict = late.holds_everything()
    assert (verdict.rows, verdict.quarantined, verdict.tombstones) == (110, 2, 1)
    assert late.ledger["start"] == {"0": 0, "1": 0}
    assert reconcile(lakehouse.lake, late.contract).sound
    for gone in ("", "_quarantine"):
        assert not lakehouse.catalog.table_exists(f"{late.name}_backfill{gone}")
    assert backfilled(lakehouse.lake, [late.name]) == []
    again = done(late, since=AGES[0], until=AGES[1], cutover=True)
    assert (again["already_there"], late.branches) == (True, set())
    rollback(lakehouse.lake, late.contract, Target(head), ADA)
    assert (late.ids(), late.iceberg().properties["tidemark.cutover"]) == (list(range(60, 110)), "")
    assert sum(c.rows for c in reconcile(lakehouse.lake, late.contract).counts) == 50
    assert reconcile(lakehouse.lake, late.contract).sound


def test_a_cutover_that_died_is_published_once_however_late_it_is_repeated(lakehouse, late, monkeypatch):
    """Given a cutover that died before its shadow was dropped, when its receipt has expired and it is repeated, then the
    shadow goes, and a row that somebody has deleted since does not come back."""
    verb = {"since": AGES[0], "until": AGES[1], "cutover": True}

    def dies(*_):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(act, "drop_shadow", dies)
        with pytest.raises(Died):
            done(late, **verb)
    receipt = late.head
    lakehouse.spark().sql(f"DELETE FROM {late.name} WHERE id = 7")
    late.topic.send(range(100, 110))
    late.run()
    time.sleep(1)
    limits = Snapshots(max_age="1s", min_keep=1)
    assert expire(lakehouse.lake, late.name, limits, Named, until=inf, dry_run=False).acted
    assert receipt not in {each.snapshot_id for each in late.iceberg().metadata.snapshots}
    again = done(late, **verb)
    assert (again["step"], again["cutover"]["rows"], again["receipt"]) == ("cutover", 100, None)
    assert late.ids() == [n for n in range(110) if n != 7]
    assert not lakehouse.catalog.table_exists(f"{late.name}_backfill")


def test_an_aborted_backfill_leaves_nothing(lakehouse, late):
    """Given a load whose abort has died on the way, then nothing else is done with it than to abort it again."""
    head, rows = late.head, late.ids()
    assert done(late, since=AGES[0], until=AGES[1])["step"] == "load"
    lakehouse.spark().sql(f"DROP TABLE {late.name}_backfill_quarantine PURGE")
    with pytest.raises(Refused, match="an abort has begun to drop it"):
        done(late, cutover=True)
    assert done(late, replace(ADA, run_id="abort-1"), abort=True)["rows_dropped"] == 100
    assert (late.head, late.ids(), late.branches) == (head, rows, set())
    assert not [
        t for t in lakehouse.catalog.list_tables("proof") if t[1].startswith(f"{late.name[6:]}_backfill")
    ]
    with pytest.raises(Refused, match="no backfill"):
        done(late, abort=True)
    with pytest.raises(Refused, match="needs --from"):
        done(late)
    log = lakehouse.lake.spark().table("lake.lake.tidemark_operations").where(f"`table` = '{late.name}'")
    assert [(r["verb"], r["by"]) for r in log.collect()] == [("backfill", "ada")] * 2


def test_a_table_of_somebody_else_in_the_place_of_the_backfill_is_neither_written_nor_dropped(
    lakehouse, late
):
    """Given a table with the name that the backfill's quarantine would have, when a backfill begins, or drops what it made, then that table stays."""
    place = f"{late.name}_backfill_quarantine"
    lakehouse.spark().sql(f"CREATE TABLE {place} USING iceberg AS SELECT 1 AS precious")
    with pytest.raises(Refused, match=f"{place} is the place of the backfill"):
        done(late, since=AGES[0], until=AGES[1])
    lakehouse.spark().sql(f"ALTER TABLE {place} RENAME TO {place}_")
    assert done(late, since=AGES[0], until=AGES[1])["step"] == "load"
    lakehouse.spark().sql(f"DROP TABLE {place} PURGE")
    lakehouse.spark().sql(f"ALTER TABLE {place}_ RENAME TO {place}")
    with pytest.raises(Refused, match=f"{place} is the place of the backfill"):
        done(late, abort=True)
    drop_shadow(lakehouse.lake, late.contract)
    assert lakehouse.catalog.load_table(place).scan().to_arrow()["precious"].to_pylist() == [1]
    assert not lakehouse.catalog.table_exists(f"{late.name}_backfill")


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_rows_of_other_stores_and_topics_come_before_the_cutover(lakehouse, tmp_path, version):
    """Given a table that another sink has filled, files and the topic of an old cluster that goes once it is loaded, when they are loaded up to the first live row, then each is there once and the ledger is untouched."""
    spark, lake = lakehouse.spark(), lakehouse.lake
    other = lakehouse.cluster.topic("before")
    other.send_raw((str(n).encode(), other.encode(order(n)), 0) for n in range(8))
    other.send_raw([(None, b"poison", 0)])
    time.sleep(0.01)
    moved = datetime.now(UTC)
    topic = lakehouse.cluster.topic("moved", 1)
    topic.send(range(5 * 24 * 60, 5 * 24 * 60 + 20))
    table = lakehouse.table(topic, event_time="at", format_version=version, quarantine={"fail": 0.5})
    table.run()
    old = f"lake.{table.name}_sink"
    values = "id, concat('c', id) AS customer, CAST(id AS float) AS amount"
    spark.sql(
        f"CREATE TABLE {old} USING iceberg AS SELECT {values}, timestamp_micros({BEGAN} + id * 60000000) AS at "
        "FROM (SELECT explode(sequence(0L, 5759L)) AS id)"
    )
    source, span = f"table:{old[5:]}", {"since": DAY, "until": DAY + timedelta(days=5)}
    with pytest.raises(Refused, match="20 rows of its own topic"):
        done(table, since=DAY, until=DAY + timedelta(days=6), source=source)
    seen = done(table, DRY, source=source, **span)
    assert (seen["rows"], seen["rows_without_time"], seen["windows_planned"]) == (5760, 0, 4)
    told = done(table, source=source, **span)
    spark.sql(f"DELETE FROM {old} WHERE id < 0 OR id > 5000")
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{old[5:]}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert done(table)["loaded_now"] == 0, "what is read stays until it is published, whoever expires"
    assert (told["windows_equal"], told["windows_different"], told["rows"]) == (4, 0, 5760)
    assert [w["loaded"]["keys"] for w in told["windows"]] == [1440, 1440, 1440, 1440]
    before = table.ledger
    would = done(table, DRY, cutover=True)
    assert (would["step"], would["rows"], would["windows_left"]) == ("cutover", 5760, 0)
    assert done(table, cutover=True)["cutover"]["source"] == source
    assert set(lakehouse.catalog.load_table(old[5:]).metadata.refs) == {"main"}
    rows = table.iceberg().scan(selected_fields=("id", "_kafka")).to_arrow()
    assert sorted(rows["id"].to_pylist()) == [*range(5760), *range(7200, 7220)]
    after = table.ledger
    assert (after["totals"], after["next"], after["start"]) == (
        before["totals"],
        before["next"],
        before["start"],
    )
    assert reconcile(lake, table.contract).sound
    if version == 2:
        spark.table(old).write.parquet(f"file://{tmp_path}/files")
        files = done(
            table,
            source=f"parquet:file://{tmp_path}/files",
            since=DAY,
            until=DAY + timedelta(hours=1),
            window_seconds=1800,
            cutover=True,
        )
        assert (files["rows"], files["windows_equal"]) == (60, 2)
        assert len(table.ids()) == 5780 + 60
        with pytest.raises(Refused, match="would be there twice"):
            done(table, source=f"topic:{other.name}", since=AGES[0], until=AGES[1])
        old_topic = {"source": f"topic:old/{other.name}", "since": AGES[0], "until": moved}
        elsewhere = with_old_cluster(lakehouse)
        assert done(table, lake=elsewhere, **old_topic)["rows"] == 8
        elsewhere.close()
        over, again = (done(table, **old_topic, cutover=True) for _ in range(2))
        assert (over["loaded_now"], again["already_there"], again["cutover"]) == (0, True, over["cutover"])
        assert (len(table.ids()), table.causes()) == (5780 + 68, {"no_magic_byte": 1})
        assert reconcile(lake, table.contract).sound


UNFIT = {
    "1 AS extra": "extra: missing",
    "CAST(1 AS double) AS id": "id: incompatible",
    "CAST(1 AS decimal(20, 0)) AS id": "id: incompatible",
    "TIMESTAMP_NTZ '2026-01-02' AS at": "at: incompatible",
    "'x' AS CUSTOMER": "equals customer but for case",
}


def test_what_the_table_cannot_hold_is_refused_before_anything_is_made(lakehouse, tmp_path):
    """Given files with a column that does not fit, when they are to be loaded or would be, then both are refused alike and nothing is made."""
    topic = lakehouse.cluster.topic("fits", 1)
    topic.send(range(5 * 24 * 60, 5 * 24 * 60 + 5))
    table = lakehouse.table(topic, event_time="at")
    table.run()
    fit = ("1L AS id", "TIMESTAMP '2026-01-02' AS at")
    for number, (column, why) in enumerate(UNFIT.items()):
        name = column.rpartition(" ")[2]
        others = [each for each in fit if not each.endswith(f" {name}")]
        files = f"file://{tmp_path}/{number}"
        lakehouse.spark().sql(f"SELECT {', '.join([column, *others])}").write.parquet(files)
        said = {"source": f"parquet:{files}", "since": DAY, "until": DAY + timedelta(days=3)}
        for signature in (DRY, ADA):
            with pytest.raises(Refused, match=why) as refused:
                done(table, signature, **said)
            assert refused.value.message.startswith(f"{table.name} ")
    assert backfilled(lakehouse.lake, [table.name]) == []


def test_files_that_spark_cannot_read_are_refused_with_what_is_wrong(lakehouse, late, tmp_path):
    times = pa.table({"id": pa.array([1]), "at": pa.array([1], pa.timestamp("ns", tz="UTC"))})
    parquet.write_table(times, tmp_path / "nanos.parquet", version="2.6")
    (tmp_path / "no.parquet").write_bytes(b"PAR1 is not enough of it")
    for name, why in (("nanos", r"INT64 \(TIMESTAMP\(NANOS,true\)\)"), ("no", "footer")):
        source = f"parquet:file://{tmp_path}/{name}.parquet"
        with pytest.raises(Refused, match=why) as refused:
            done(late, DRY, source=source, since=AGES[0], until=AGES[1], time_column="at")
        assert f"{name}.parquet" in refused.value.message
        assert not {"JVM", "SQLSTATE:"} & set(refused.value.message.split())


def test_a_cutover_loses_nothing_that_kafka_has_compacted_away(lakehouse):
    """Given a tombstone's row and a quarantined record that only the table still has, then cutover and replay refuse, naming both, and a dry run does too."""
    topic = lakehouse.cluster.compacted_topic("thinned")
    topic.send([2])
    topic.send_raw([(b"0", None, 0), (b"1", b"poison", 0)])
    topic.send([3])
    table = lakehouse.table(
        topic, key={"format": "string", "fields": ["id"]}, upsert=["id"], quarantine={"fail": 1.0}
    )
    assert table.run().rows.written == 3
    topic.send([0, 1])

    def thinned():
        topic.send([999_999])
        there = oracle.read_kafka(lakehouse.cluster.bootstrap, topic.name)[0]
        return not {1, 2} & {*there.values.tolist(), *there.tombstones.tolist()}

    until(thinned, "the log cleaner", 120)
    table.run()
    head = table.head
    with pytest.raises(Refused, match=r"compacted\): 0:1, 0:2 "):
        done(table, since=AGES[0], until=AGES[1], cutover=True)
    for signature in (DRY, ADA):
        with pytest.raises(Refused, match=r"compacted\): 0:1, 0:2 "):
            replay_range(lakehouse.lake, table.contract, 0, 0, 4, signature)
    assert (table.head, table.causes(), table.branches) == (head, {"no_magic_byte": 1}, set())


def test_history_is_decoded_as_its_table_decodes(lakehouse):
    """Given a writer that an approval has sent aside, when history is loaded, then its records go aside again and the others are rows; once the contract is mended the same command loads again."""
    topic = lakehouse.cluster.topic("settled", 1)
    topic.send(range(6))
    rules = {"quality": [{"sql": "id <> 3"}], "quarantine": {"fail": 1.0}}
    table = lakehouse.table(topic, **rules)
    table.run()
    fields = [{**each, "type": "double"} if each["name"] == "id" else each for each in ORDER["fields"]]
    topic.use({**ORDER, "fields": fields})
    topic.send(range(6, 8))
    waits = table.run()
    assert waits.state == "schema_review"
    again = {"since": AGES[0], "until": AGES[1], "cutover": True}
    assert done(table, since=AGES[0], until=AGES[1])["rows"] == 5
    done(table, abort=True)
    approve(lakehouse.lake, table.contract, waits.error["plan"], ADA)
    assert table.run().state == "fresh"
    causes = {"quality:sql": 1, "schema_not_allowed": 2}
    assert (table.ids(), table.causes()) == ([0, 1, 2, 4, 5], causes)
    assert done(table, **again)["cutover"]["rows"] == 5
    assert (table.ids(), table.causes()) == ([0, 1, 2, 4, 5], causes)
    assert done(table, **again)["already_there"]
    mended = lakehouse.table(topic, quarantine={"fail": 1.0})
    assert done(mended, **again)["cutover"]["rows"] == 6
    assert (mended.ids(), mended.causes()) == (list(range(6)), {"schema_not_allowed": 2})
    assert reconcile(lakehouse.lake, mended.contract).sound


def test_history_goes_on_once_its_table_has_the_column_that_was_approved(lakehouse):
    """Given a change under review in the history as in the live records, when it is approved while the load waits, then the same command loads the rest."""
    narrow = [{**f, "type": "float"} if f["name"] == "amount" else f for f in ORDER["fields"]]
    topic = lakehouse.cluster.topic("reviewed", 1, schema={**ORDER, "fields": narrow})
    topic.send(range(3))
    start, review = {"offsets": {0: 4}}, {"add_column": "review", "widen_type": "review"}
    table = lakehouse.table(topic, ingest={"start": start}, schema_changes=review)
    assert table.run().state == "misconfigured", "made for the first schema, offset 4 is not there yet"
    note = {"name": "note", "type": ["null", "string"], "default": None}
    wider = {**ORDER, "fields": [*ORDER["fields"], note]}
    topic.use(wider)
    topic.send_raw([(None, topic.encode({**order(3), "note": "a"}), 0)])
    topic.use({**ORDER, "fields": narrow})
    topic.send([4])
    topic.use(wider)
    topic.send_raw([(None, topic.encode({**order(5), "note": "b"}), 0)])
    waits = table.run()
    assert (waits.state, waits.next) == ("schema_review", {0: 5})
    with pytest.raises(Refused, match="cannot go on"):
        done(table, since=AGES[0], until=AGES[1])
    approve(lakehouse.lake, table.contract, waits.error["plan"], ADA)
    assert table.run().state == "fresh"
    assert done(table, cutover=True)["cutover"]["rows"] == 5, "the live record is the ingest's"
    notes = table.iceberg().scan(selected_fields=("note",)).to_arrow()["note"].to_pylist()
    assert (table.ids(), sorted(filter(None, notes))) == (list(range(6)), ["a", "b"])
    assert reconcile(lakehouse.lake, table.contract).sound


def test_a_backfill_under_way_goes_with_its_table_when_that_is_renamed(lakehouse, late):
    """Given loaded history and a copy of another table's rows, each with its table renamed before it is published, then it is published under the new name."""
    said = {"ingest": {"start": "latest"}, "quarantine": {"fail": 0.5}}

    def renamed(table, name):
        new = lakehouse.table(table.topic, name, **said)
        (lakehouse.contracts / f"{new.name}.yaml").rename(lakehouse.contracts / f"{late.name}.yaml")
        lakehouse.close()  # a process of its own, which reads the contracts anew
        waits = new.run()
        assert waits.state == "schema_review"
        approve(lakehouse.lake, new.contract, waits.error["plan"], ADA)
        return new

    assert done(late, since=AGES[0], until=AGES[1])["rows"] == 100
    new = renamed(late, f"{late.topic.name}_now")
    assert not lakehouse.catalog.table_exists(f"{late.name}_backfill")
    assert done(new, cutover=True)["cutover"]["rows"] == 100
    verdict = new.holds_everything()
    assert (verdict.rows, verdict.quarantined, verdict.tombstones) == (100, 2, 1)
    assert reconcile(lakehouse.lake, new.contract).sound

    sink = f"{late.name}_sink"
    lakehouse.spark().sql(
        f"CREATE TABLE lake.{sink} USING iceberg AS SELECT 1L AS id, TIMESTAMP '2021-01-01' AS at"
    )
    span = {"since": datetime(2020, 12, 31, tzinfo=UTC), "until": datetime(2021, 1, 2, tzinfo=UTC)}
    assert done(new, source=f"table:{sink}", **span, time_column="at")["rows"] == 1
    later = renamed(new, f"{late.topic.name}_later")
    assert set(lakehouse.catalog.load_table(sink).metadata.refs) == {
        "main", f"tidemark_backfill_{later.name}"
    }  # fmt: skip
    assert done(later, abort=True)["rows_dropped"] == 1
    assert set(lakehouse.catalog.load_table(sink).metadata.refs) == {"main"}
    assert backfilled(lakehouse.lake, [late.name, new.name, later.name]) == []


def test_loaded_history_is_told_though_its_table_has_not_met_the_newest_schema_yet(lakehouse):
    """Given a schema that was registered and not sent yet, when history is loaded, then that is said with what hinders its cutover; a run takes the schema, and the cutover goes on."""
    topic = lakehouse.cluster.topic("ahead", 1)
    topic.send(range(3))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    note = {"name": "note", "type": ["null", "string"], "default": None}
    topic.use({**ORDER, "fields": [*ORDER["fields"], note]})
    told = done(table, since=AGES[0], until=AGES[1])
    assert (told["step"], told["loaded_now"], told["rows"]) == ("load", 3, 3)
    assert "note: missing" in told["hinders"]
    assert told["next_step"].startswith(f"tidemark run {table.name} takes newer schemas")
    for signature in (DRY, ADA):
        with pytest.raises(Refused, match="is loaded and stays, but cannot be published"):
            done(table, signature, cutover=True)
    assert table.run().state == "fresh"
    assert (done(table, cutover=True)["cutover"]["rows"], table.ids()) == (3, [0, 1, 2])


def test_another_topic_is_read_by_its_own_subject(lakehouse):
    """Given an old topic whose schema no subject of the table's topic has, when it is loaded, then its records are rows, told by their own place, and what cannot be read is told to wait for another backfill."""
    old = lakehouse.cluster.topic("archive", schema={**ORDER, "name": "Archived"})
    old.send(range(4))
    old.send_raw([(b"4", old.encode(order(4)), 0), (b"bad", b"poison", 0)])
    moved = datetime.now(UTC)
    topic = lakehouse.cluster.topic("successor", 1)
    topic.send_at(range(5, 10), moved + timedelta(minutes=1))
    table = lakehouse.table(topic, quarantine={"fail": 0.5})
    table.run()
    told = done(table, source=f"topic:{old.name}", since=AGES[0], until=moved, cutover=True)
    assert (told["cutover"]["rows"], table.ids()) == (5, list(range(10)))
    lake, contract = lakehouse.lake, table.contract
    [row], [waits] = (where_key(lake, contract, key)[0] for key in (b"4", b"bad"))
    assert (row.topic, row.fate, waits.topic, waits.fate) == (old.name, "published", old.name, "quarantined")
    assert f"the backfill from {old.name} anew" in waits.facts["next_step"]
    told = replay_quarantine(lake, contract, Selection(), DRY).arguments
    assert (told["moved"], told["stays"], told["of_other_epochs"]) == (0, {}, 1)


def test_what_an_open_transaction_holds_back_is_loaded_before_anything_is_published(lakehouse):
    """Given a source whose range ends beyond an open transaction, when it is loaded and cut over, then that is refused until the transaction has ended, and no record is left out."""
    old = lakehouse.cluster.topic("held")
    old.send_at(range(5), DAY)
    topic = lakehouse.cluster.topic("heir")
    moved = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    topic.send_at(range(100, 105), moved)
    table = lakehouse.table(topic)
    table.run()
    asked = {"source": f"topic:{old.name}", "since": AGES[0], "until": moved}
    with old.transaction() as transaction:
        transaction.send([5, 6])
        transaction.producer.flush(30)
        old.send([7, 8])
        old.send_at([9], moved)
        told = done(table, **asked)
        assert (told["step"], told["rows"], told["offsets_left"]) == ("load", 5, 4)
        with pytest.raises(Refused, match="open transaction") as refused:
            done(table, cutover=True)
        assert (refused.value.fields["offsets_left"], len(table.ids())) == (4, 5)
    assert done(table, cutover=True)["cutover"]["rows"] == 9
    assert table.ids() == [*range(9), *range(100, 105)]
