"""Rule: whatever becomes of topic, table and shadow while history is loaded, a cutover loses and doubles nothing."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from dying import Died
from topics import BEGAN

import tidemark.engine.ingest.microbatch as ingesting
import tidemark.engine.operate.backfill.act as operating
import tidemark.engine.operate.backfill.cutover as publishing
import tidemark.engine.operate.backfill.load as loading
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import BACKFILL, Backfill
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test", run_id="backfill-1")
AGES = {"since": datetime(2020, 1, 1, tzinfo=UTC), "until": datetime(2040, 1, 1, tzinfo=UTC)}
DAY = datetime.fromtimestamp(BEGAN / 1e6, UTC)


def done(table, **asked):
    return backfill(table.lakehouse.lake, table.contract, Asked(**asked), ADA).as_json()["arguments"]


def late(lakehouse, name):
    """Forty orders and a poison record before a table that began at `latest`; ten orders after."""
    topic = lakehouse.cluster.topic(name, 2)
    topic.send(range(40))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, ingest={"start": "latest"}, quarantine={"fail": 0.5})
    table.run()
    topic.send(range(40, 50))
    table.run()
    return table


def expire(lakehouse, table):
    """What somebody's nightly job does to all tables of a catalog."""
    lakehouse.spark().sql(
        f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )


def sink_of(lakehouse, table):
    """Another table with an order an hour, of five days."""
    sink = f"{table.name}_sink"
    values = "id, 'c' AS customer, CAST(id AS double) AS amount"
    lakehouse.spark().sql(
        f"CREATE TABLE lake.{sink} USING iceberg AS SELECT {values}, "
        f"timestamp_micros({BEGAN} + id * 60000000) AS at FROM (SELECT explode(sequence(0L, 7199L, 60L)) AS id)"
    )
    return sink


@pytest.mark.long
def test_what_is_loaded_counts_though_the_receipts_of_the_shadow_were_expired(lakehouse):
    """Given history loaded in windows whose receipts somebody has expired, when it is cut over, then every record is counted and there once."""
    table = late(lakehouse, "expired")
    part = done(table, **AGES, max_records=10)
    assert len(part["windows"]) == 6
    expire(lakehouse, f"{table.name}_backfill")
    whole = done(table, cutover=True)
    assert (whole["rows"], whole["cutover"]["rows"]) == (50, 50)
    assert [sum(each[name] for each in whole["windows"]) for name in ("read", "quarantined")] == [51, 1]
    assert len(whole["windows"]) == 2
    verdict = table.holds_everything()
    assert (verdict.rows, verdict.quarantined) == (50, 1)
    assert reconcile(lakehouse.lake, table.contract).sound


def test_copied_rows_are_compared_though_the_receipts_of_the_shadow_were_expired(lakehouse):
    """Given five windows of another table's rows whose receipts somebody has expired, when they are cut over, then all of them were compared with their source."""
    topic = lakehouse.cluster.topic("copied")
    table = lakehouse.table(topic, event_time="at")
    topic.send([7200])
    table.run()
    sink = sink_of(lakehouse, table)
    span = {"since": DAY, "until": DAY + timedelta(days=5)}
    told = done(table, source=f"table:{sink}", **span)
    assert (told["windows_equal"], told["rows"]) == (5, 120)
    expire(lakehouse, f"{table.name}_backfill")
    whole = done(table, cutover=True)
    first, last = whole["windows"]
    assert (whole["windows_equal"], whole["windows_different"], whole["cutover"]["rows"]) == (2, 0, 120)
    assert (first["from"], first["to"], last["to"]) == tuple(
        (DAY + timedelta(days=n)).isoformat() for n in (0, 4, 5)
    )
    assert len(table.ids()) == 121


def test_a_column_by_whose_values_rows_are_partitioned_becomes_wider_while_what_is_loaded_waits(lakehouse):
    """Given a table to which nothing comes any more, when such a column becomes wider before the load and another one after it, then loaded and published it is, and both compare the rows of before."""
    topic = lakehouse.cluster.bare_topic("wider")

    def declared(tenant="int", shop="int"):
        value = {"format": "json", "fields": {"id": "bigint", "tenant": tenant, "shop": shop}}
        return lakehouse.table(
            topic, value=value, partition_by=["tenant", "shop"], ingest={"start": "latest"}
        )

    def send(*ids):
        topic.send_raw([(None, json.dumps({"id": n, "tenant": 7, "shop": 8}).encode(), 0) for n in ids])

    send(0, 1)
    table = declared()
    table.run()
    send(2, 3)
    table.run()
    table = declared(tenant="bigint")
    assert evolve_now(lakehouse.lake, table.contract, "look").done
    assert reconcile(lakehouse.lake, table.contract).sound
    told = done(table, **AGES)
    assert [(w["equal"], w["other"]["rows"]) for w in told["windows"]] == [(False, 0), (True, 2)]
    table = declared(tenant="bigint", shop="bigint")
    assert evolve_now(lakehouse.lake, table.contract, "look").done
    dry = backfill(lakehouse.lake, table.contract, Asked(cutover=True), replace(ADA, dry_run=True))
    whole = done(table, cutover=True)
    for each in (dry.as_json()["arguments"], whole):
        assert (each["windows_different"], each["windows_equal"]) == (1, 1)
    assert (whole["cutover"]["rows"], table.ids()) == (4, [0, 1, 2, 3])


@pytest.mark.parametrize("topic_too", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_is_loaded_is_published_though_kafka_has_none_of_it_any_more(lakehouse, topic_too):
    """Given loaded history that Kafka has let go of since, with the whole topic even, when it is cut over, then it is published."""
    table = late(lakehouse, "forgotten")
    assert done(table, **AGES)["rows"] == 50
    table.topic.send(range(50, 60))
    table.run()
    if topic_too:
        table.topic.delete()
    else:
        table.topic.delete_records({0: 31, 1: 30})
    assert done(table, cutover=True)["cutover"]["rows"] == 50
    assert (table.ids(), table.causes()) == (list(range(60)), {"no_magic_byte": 1})


@pytest.mark.parametrize(
    ("expired", "stops"), [({0: 4, 2: 3}, ""), ({1: 20}, r"partition 1: offsets \d+ to 19 are gone")]
)
def test_only_what_is_still_to_be_loaded_may_not_expire(lakehouse, expired, stops):
    """Given a load of three partitions, one done and one without history, when Kafka lets go of what these hold beyond, then the third is loaded on; what it lacks itself stops it."""
    topic = lakehouse.cluster.topic("uneven", 3)
    history = datetime(2021, 1, 1, tzinfo=UTC)
    topic.send_at([0, 3, *range(1, 90, 3)], history)
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    topic.send(range(90, 105))
    table.run()
    told = []

    def let_go(said):
        told.append(said)
        if len(told) == 3:
            topic.delete_records(expired)

    span = {"since": AGES["since"], "until": history + timedelta(days=1)}
    asked = {**span, "max_records": 4, "pace": Pace(say=let_go), "cutover": True}
    if stops:
        with pytest.raises(Refused, match=stops):
            done(table, **asked)
    else:
        assert done(table, **asked)["cutover"]["rows"] == 32
    assert len(table.ids()) == (15 if stops else 47)


def test_live_rows_that_come_while_rows_are_copied_are_not_there_twice(lakehouse):
    """Given windows of another table's rows, when the ingest brings a row of their time after the first, then the cutover refuses, and goes through without it."""
    topic = lakehouse.cluster.topic("lagging")
    table = lakehouse.table(topic, event_time="at")
    topic.send([7200])
    table.run()
    sink = sink_of(lakehouse, table)
    before = table.head

    def lag(_):
        if table.head == before:
            topic.send([7199])
            table.run()

    asked = {"source": f"table:{sink}", "since": DAY, "until": DAY + timedelta(days=5), "cutover": True}
    with pytest.raises(Refused, match="1 rows of its own topic from 2026-01-05"):
        done(table, **asked, pace=Pace(say=lag))
    assert table.ids() == [7199, 7200]
    with pytest.raises(Refused, match=r"another backfill .* is under way"):
        done(table, abort=True, since=DAY - timedelta(days=1))
    done(table, abort=True)
    asked["until"] = DAY + timedelta(minutes=7199)
    assert done(table, **asked)["cutover"]["rows"] == 120
    assert table.ids() == [*range(0, 7199, 60), 7199, 7200]


def two_ages(lakehouse, name):
    """Twenty orders of 2021 and twenty of 2022 in one partition, before a table that began at `latest`."""
    topic = lakehouse.cluster.topic(name, 1)
    for first, year in ((0, 2021), (20, 2022)):
        topic.send_at(range(first, first + 20), datetime(year, 6, 1, tzinfo=UTC))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    return table


BOTH = {"since": datetime(2021, 1, 1, tzinfo=UTC), "until": datetime(2023, 1, 1, tzinfo=UTC)}
SECOND = {**BOTH, "since": datetime(2022, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize("rows", [False, True])
def test_a_load_that_was_aborted_meanwhile_makes_and_publishes_nothing(lakehouse, rows):
    """Given a load that waits for its rate, of records and of rows, when it is aborted, then it says so and leaves the table as it was."""
    table = two_ages(lakehouse, "aborted")
    asked = {**BOTH, "max_records": 10}
    if rows:
        sink = sink_of(lakehouse, table)
        asked = {
            "source": f"table:{sink}",
            "since": DAY,
            "until": DAY + timedelta(days=5),
            "time_column": "at",
        }
    told = []

    def abort(said):
        told.append(said)
        assert done(table, abort=True)["rows_dropped"] == (24 if rows else 10)

    with pytest.raises(Refused, match="dropped meanwhile"):
        done(table, **asked, cutover=True, pace=Pace(say=abort))
    assert (len(told), table.ids(), table.branches) == (1, [], set())
    assert not lakehouse.catalog.table_exists(f"{table.name}_backfill")
    if rows:
        assert set(lakehouse.catalog.load_table(sink).metadata.refs) == {"main"}


@pytest.mark.parametrize("staged", [False, True])
def test_a_load_never_goes_on_in_the_shadow_of_another_one(lakehouse, meanwhile, staged):
    """Given a load between two batches, or about to publish one, when it is aborted and another range begins, then it ends and the other one loads and publishes its own."""
    table = two_ages(lakehouse, "exchanged")
    told = []

    def exchange(said=""):
        told.append(said)
        done(table, abort=True)
        done(table, **SECOND, max_records=5, pace=Pace())

    pace = Pace()
    if staged:
        meanwhile(ingesting, "repair", exchange)
    else:
        pace = Pace(say=exchange)
    with pytest.raises(Refused, match="dropped meanwhile"):
        done(table, **BOTH, max_records=10, cutover=True, pace=pace)
    assert (len(told), table.ids()) == (1, [])
    assert done(table, **SECOND, cutover=True)["cutover"]["rows"] == 20
    assert table.ids() == list(range(20, 40))
    assert reconcile(lakehouse.lake, table.contract).sound


def test_of_two_backfills_that_begin_at_once_the_later_one_ends(lakehouse, meanwhile):
    """Given a backfill that has found none under way, when another range begins before it makes its shadow, then it is refused and the other one is published."""
    table = two_ages(lakehouse, "twins")
    meanwhile(operating, "source_contract", lambda: done(table, **SECOND))
    with pytest.raises(Refused, match="another one began in its place"):
        done(table, **BOTH, cutover=True)
    assert done(table, cutover=True)["cutover"]["rows"] == 20
    assert table.ids() == list(range(20, 40))


def test_a_shadow_that_holds_another_range_than_it_says_is_not_published(lakehouse):
    """Given a loaded shadow whose property names more than its ledger, when it is cut over, then that is refused, for the cutover would take rows away that it does not bring."""
    table = two_ages(lakehouse, "renamed")
    done(table, **BOTH, cutover=True)
    done(table, **SECOND)
    shadow = lakehouse.catalog.load_table(f"{table.name}_backfill")
    says = Backfill.model_validate_json(shadow.properties[BACKFILL])
    more = says.model_copy(update={"start": {0: 0}}).model_dump_json()
    with shadow.transaction() as transaction:
        transaction.set_properties({BACKFILL: more})
    with pytest.raises(Refused, match="loaded with another range"):
        done(table, cutover=True)
    assert table.ids() == list(range(40))


def test_records_that_other_rules_have_judged_are_neither_published_nor_added_to(lakehouse):
    """Given a load that died half-way, when a rule that quarantines is edited, then it does not go on and is not published until the edit is taken back; rules that block are judged at the cutover, and may be edited as all else."""
    table, said = late(lakehouse, "rejudged"), {"ingest": {"start": "latest"}, "quarantine": {"fail": 0.5}}

    def died(_):
        raise Died

    with pytest.raises(Died):
        done(table, **AGES, max_records=10, pace=Pace(say=died))
    loaded = lakehouse.lake.state(f"{table.name}_backfill").ledger.next
    table = lakehouse.table(table.topic, **said, quality=[{"sql": "id <> 2"}])
    for asked in ({}, {"cutover": True}):
        with pytest.raises(Refused, match="were edited since its backfill began") as refused:
            done(table, **asked)
        assert refused.value.next_step.startswith(f"tidemark backfill {table.name} --abort")
    assert lakehouse.lake.state(f"{table.name}_backfill").ledger.next == loaded
    assert sum(loaded.values()) == 10
    table = lakehouse.table(table.topic, **said, quality=[{"sql": "id <> 2", "on_failure": "block"}])
    with pytest.raises(Refused, match="sql"):
        done(table, cutover=True)
    assert sorted(table.ids()) == list(range(40, 50))
    table = lakehouse.table(table.topic, **said, target_lag="9m")
    assert done(table, cutover=True)["cutover"]["rows"] == 50
    assert sorted(table.ids()) == list(range(50))


def test_a_replay_of_loaded_records_is_not_taken_back_by_the_cutover(lakehouse, meanwhile):
    """Given loaded history, when a replay reads some of its records again as the cutover is about to publish, then that is refused, and so is whatever follows but an abort; replays of other records hinder nothing."""
    topic = lakehouse.cluster.topic("replayed", 1)
    for first, year in ((0, 2021), (20, 2022)):
        topic.send_at(range(first, first + 20), datetime(year, 6, 1, tzinfo=UTC))
    table = lakehouse.table(topic)
    table.run()

    def replayed(place):
        read = Selection(partition=0, first=place, upto=place + 1)
        return replay(lakehouse.lake, table.contract, read, ADA, quarantine=False)

    assert done(table, **SECOND)["rows"] == 20
    replayed(19)
    assert done(table)["rows"] == 20
    meanwhile(publishing, "replay_base", lambda: replayed(20))
    for asked in ({"cutover": True}, {"cutover": True}, {}):
        with pytest.raises(Refused, match="were replayed or rolled back"):
            done(table, **asked)
    assert table.branches == set()
    done(table, abort=True)
    assert done(table, **SECOND, cutover=True)["cutover"]["rows"] == 20
    assert table.ids() == list(range(40))
    assert reconcile(lakehouse.lake, table.contract).sound


def test_a_backfill_that_never_made_its_shadow_leaves_no_tag(lakehouse, monkeypatch):
    """Given a source of rows, when a backfill ends before its shadow is there, then nothing keeps a snapshot of the source."""
    table = two_ages(lakehouse, "tagless")
    sink = sink_of(lakehouse, table)

    def dies(*_):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(loading, "create", dies)
        with pytest.raises(Died):
            done(table, source=f"table:{sink}", since=DAY, until=DAY + timedelta(days=5), time_column="at")
    assert set(lakehouse.catalog.load_table(sink).metadata.refs) == {"main"}


def test_a_published_backfill_is_cleared_up_without_its_source(lakehouse, monkeypatch):
    """Given a cutover that died when the tag on its source was gone and the shadow was not, when the source is dropped, then the repetition clears up."""
    topic = lakehouse.cluster.topic("cleared", 1)
    topic.send([7200])
    table = lakehouse.table(topic, event_time="at")
    table.run()
    sink = sink_of(lakehouse, table)
    span = {"source": f"table:{sink}", "since": DAY, "until": DAY + timedelta(days=5)}

    def dies(*_):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(operating, "drop_shadow", dies)
        with pytest.raises(Died):
            done(table, **span, cutover=True)
    head = table.head
    lakehouse.catalog.drop_table(sink)
    with pytest.raises(Refused, match="is published already"):
        done(table, abort=True)
    with pytest.raises(Refused, match="another backfill"):
        done(table, **{**span, "source": "table:old.other"}, cutover=True)
    dry = backfill(lakehouse.lake, table.contract, Asked(cutover=True), replace(ADA, dry_run=True))
    seen = dry.as_json()["arguments"]
    assert (seen["step"], seen["resumes"], seen["receipt"]) == ("cutover", True, head)
    assert lakehouse.catalog.table_exists(f"{table.name}_backfill")
    told = done(table, cutover=True)
    assert (told["cutover"]["rows"], told["receipt"], table.head) == (120, head, head)
    assert not lakehouse.catalog.table_exists(f"{table.name}_backfill")
    assert done(table, **span, cutover=True)["already_there"]
    assert done(table, cutover=True)["already_there"]


def test_rows_from_elsewhere_never_come_to_feed_an_upsert_table(lakehouse):
    """Given rows of another table that are loaded, when the contract gains an upsert table, then they are not published and can be dropped."""
    topic = lakehouse.cluster.topic("upserting", 1)
    topic.send([7200])
    table = lakehouse.table(topic, event_time="at")
    table.run()
    span = {"source": f"table:{sink_of(lakehouse, table)}", "since": DAY, "until": DAY + timedelta(days=5)}
    assert done(table, **span)["rows"] == 120
    table = lakehouse.table(
        topic, event_time="at", key={"format": "string", "fields": ["id"]}, upsert={"keys": ["id"]}
    )
    for signature in (ADA, replace(ADA, dry_run=True)):
        with pytest.raises(Refused, match="feeds an upsert table"):
            backfill(lakehouse.lake, table.contract, Asked(cutover=True), signature)
    assert table.ids() == [7200]
    assert done(table, abort=True)["rows_dropped"] == 120


def test_a_merge_in_the_moment_of_a_cutover_does_not_hide_what_that_brings(lakehouse, meanwhile):
    """Given a contract without `upsert` whose backfill from elsewhere is about to be published, when a process of the contract before merges, then the upsert table says of its next merge what it lacks."""
    topic = lakehouse.cluster.topic("hidden", 1)
    said = {"event_time": "at", "key": {"format": "string", "fields": ["id"]}}
    table = lakehouse.table(topic, **said, upsert={"keys": ["id"]})
    current = upsert_table_of(table.contract)
    topic.send([7200])
    table.run()
    table = lakehouse.table(topic, **said)
    span = {"source": f"table:{sink_of(lakehouse, table)}", "since": DAY, "until": DAY + timedelta(days=5)}
    meanwhile(publishing, "publish_and_settle", lambda: catch_up_merges(lakehouse.lake, current, "test"))
    assert done(table, **span, cutover=True)["cutover"]["rows"] == 120
    assert read_pair(lakehouse.lake, current).elsewhere
    topic.send([7201])
    table.run()
    assert catch_up_merges(lakehouse.lake, current, "test").error["state"] == "misconfigured"
