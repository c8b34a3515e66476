"""Rule: whatever becomes of topic, table and shadow while history is loaded, a cutover loses and doubles nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from topics import BEGAN

from tidemark.domain.errors import Refused
from tidemark.engine.operate.backfill import backfill
from tidemark.engine.operate.backfill_load import Pace
from tidemark.engine.operate.backfill_plan import Asked
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


@pytest.mark.parametrize("topic_too", [False, True])
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
    done(table, abort=True)
    asked["until"] = DAY + timedelta(minutes=7199)
    assert done(table, **asked)["cutover"]["rows"] == 120
    assert table.ids() == [*range(0, 7199, 60), 7199, 7200]
