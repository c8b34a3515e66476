"""Rule: however a log is cut into merges and whatever comes twice, what is left equals the log replayed into a map."""

from datetime import UTC, datetime, timedelta

import pytest
from current_state import Event, current
from cut_logs import BATCHES, cut_logs, drawn, least
from pyspark.sql import functions as F  # noqa: N812
from seeds import seed

from tidemark.domain.columns.spark_types import columns_ddl, spark_ddl
from tidemark.domain.columns.types import (
    BINARY,
    KAFKA_COLUMN,
    LONG,
    STRING,
    VARIANT,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
)
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_columns, upsert_table_of
from tidemark.engine.access.spark import checkpointed
from tidemark.engine.decode.unavailable_values import is_unknown, may_be_unknown
from tidemark.engine.merge.event import DELETE, KEY, KIND, NEW, ORIGIN, ROW, STORED
from tidemark.engine.merge.rows import events, reduced, remembered, to_remember
from tidemark.engine.merge.upsert_columns import UpsertColumns

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOURCE = Struct((Field("seq", LONG), Field("note", STRING)))
COLUMNS = Struct(
    (
        Field("log", LONG),
        Field("id", LONG),
        Field("v", STRING),
        Field("ts", LONG),
        Field("source", SOURCE),
        KAFKA_COLUMN,
    )
)
LOGS = 150


def row_of(log, event):
    at = NOON + timedelta(seconds=event.time)
    source = None if event.ts is None else (event.ts, "of the source")
    kafka = ("t", event.partition, event.offset, at, 0, None, None, None, event.value is None, event.epoch)
    return (log, event.key, event.value, event.ts, source, kafka)


@pytest.mark.random
@pytest.mark.parametrize(
    ("order_by", "deletes", "envelope"),
    [
        (["_kafka.offset"], "hard", "none"),
        (["ts"], "hard", "none"),
        (["ts", "_kafka.timestamp"], "hard", "none"),
        (["source.seq"], "soft", "none"),
        (["ts", "_kafka.timestamp"], "soft", "none"),
        (["_kafka.offset"], "hard", "debezium_flat"),
    ],
)
def test_merges_equal_the_log_replayed_into_a_map(spark, order_by, deletes, envelope):
    """Given 150 logs cut into three merges with replays, when merged, then after each every map is the log's."""
    by_source, unknowns = order_by != ["_kafka.offset"], envelope != "none"
    by_time = "_kafka.timestamp" in order_by
    contract = Contract(
        topic="t",
        table="s.t",
        value={"format": "json", "envelope": envelope},
        upsert={"keys": ["log", "id"], "order_by": order_by, "deletes": deletes, "table": "s.t_current"},
    )
    what = upsert_table_of(contract)
    shape = UpsertColumns(what, upsert_columns(what, COLUMNS))

    def differing(logs):
        return differences(spark, shape, logs, by_source=by_source, by_time=by_time, unknowns=unknowns)

    strategy = cut_logs(by_source=by_source, unknowns=unknowns, tangled=by_source)
    logs = dict(enumerate(drawn(strategy, LOGS, seed())))
    if wrong := differing(logs):
        shortest = min((logs[n] for n in wrong), key=lambda log: len(log.until(BATCHES)))
        found = least(shortest, lambda log: bool(differing({0: log})))
        pytest.fail(f"{len(wrong)} logs went wrong, for example {found}: {differing({0: found})}")


def differences(spark, shape, logs, **how):
    """Log -> (merge, keys held, keys expected), of the first merge after which some are not what they should be."""
    stored, memory = {}, []
    for number in range(BATCHES):
        fresh = [row_of(n, event) for n, log in logs.items() for event in log.batch(number)]
        rows, remember = merged(spark, shape, fresh, list(stored.values()), memory) if fresh else ([], [])
        memory += remember
        for row in rows:
            apply(row, stored)
        wrong = {}
        for n, log in logs.items():
            expected = current(log.until(number), **how)
            held = {key: row[2] for (of, key), row in stored.items() if of == n and not row[-1]}
            if held != expected:
                wrong[n] = (number, held, expected)
        if wrong:
            return wrong
    return {}


def merged(spark, shape, fresh, stored, memory):
    ddl = columns_ddl(COLUMNS)
    every = events(spark.createDataFrame(fresh, ddl), shape, COLUMNS, F.lit(NEW))
    if stored:
        mark = ", _is_deleted boolean" if shape.current.soft else ""
        rows = [row if mark else row[:-1] for row in stored]
        there = spark.createDataFrame(rows, ddl + mark)
        columns = shape.columns if mark else COLUMNS
        every = every.unionByName(events(there, shape, columns, F.lit(STORED), whole=shape.current.soft))
    if memory:
        past = spark.createDataFrame(
            memory,
            "key string, position string, epoch int, partition int, offset bigint, timestamp timestamp",
        )
        every = every.unionByName(remembered(past, shape))
    winners = checkpointed(reduced(every, shape))
    known = to_remember(winners, shape).collect() if shape.current.remembers else []
    rows = winners.where("action IS NOT NULL").select(KEY, KIND, ORIGIN, "action", f"{ROW}.*").collect()
    return rows, [tuple(row)[:-1] for row in known]


def apply(row, stored):
    key = (row[KEY]["k0"], row[KEY]["k1"])
    if row["action"] in {"insert", "update"}:
        assert (key in stored) == (row["action"] == "update")
        names = [field.name for field in COLUMNS.fields]
        stored[key] = (*(row[name] for name in names), row[KIND] == DELETE)
    elif row["action"] == "delete":
        del stored[key]


WORDS = "__debezium_unavailable_value"
CODES = ",".join(str(each) for each in WORDS.encode())


@pytest.mark.parametrize(
    ("kind", "unknown", "known"),
    [
        (STRING, f"'{WORDS}'", "'of the source'"),
        (STRING, f"""'{{"{WORDS}":"{WORDS}"}}'""", """'{"a":"b"}'"""),
        (VARIANT, f"""parse_json('"{WORDS}"')""", "parse_json('{}')"),
        (VARIANT, f"""parse_json('{{"{WORDS}":"{WORDS}"}}')""", "parse_json('7')"),
        (BINARY, f"cast('{WORDS}' AS binary)", "X'00'"),
        (ListType(STRING), f"array('{WORDS}')", f"array('{WORDS}', 'a')"),
        (ListType(STRING), "array('b68a35a7-17ad-35b3-af2a-ae46edb4545a')", "array()"),
        (ListType(BINARY), f"array(cast('{WORDS}' AS binary))", "array(X'00', NULL)"),
        (ListType(Primitive("int")), f"array({CODES})", "array(1, NULL)"),
        (ListType(LONG), f"cast(array({CODES}) AS array<bigint>)", "array(1L)"),
        (
            ListType(Primitive("date")),
            f"array({', '.join(f'date_from_unix_date({each})' for each in WORDS.encode())})",
            "array(DATE '1970-01-01')",
        ),
        (MapType(STRING, STRING), f"map('{WORDS}', '{WORDS}')", "map('a', NULL)"),
        (
            Struct((Field("wkb", BINARY), Field("srid", Primitive("int")))),
            "named_struct('wkb', X'0101000020E6100000000000FC83D797C1000000FC83D797C1', 'srid', 4326)",
            "named_struct('wkb', X'0101000000000000000000F03F000000000000F03F', 'srid', NULL)",
        ),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_postgres_did_not_send_is_known_by_the_form_of_its_type(spark, kind, unknown, known):
    """Given a value as the connector writes an unchanged large one, then it is unknown; others and NULL are known."""
    assert may_be_unknown(kind)
    rows = spark.sql(f"SELECT * FROM VALUES ({unknown}), ({known}), (NULL) AS t(v)")
    assert [row[0] for row in rows.select(is_unknown(F.col("v").cast(spark_ddl(kind)), kind)).collect()] == [
        True,
        False,
        False,
    ]


def test_a_mark_keeps_the_values_that_its_row_did_not_know(spark):
    """Given a row, an update that does not know its text, and a delete, when merged at once, then as in three merges."""
    contract = Contract(
        topic="t",
        table="s.t",
        value={"format": "json", "envelope": "debezium_flat"},
        upsert={"keys": ["log", "id"], "deletes": "soft", "table": "s.t_current"},
    )
    what = upsert_table_of(contract)
    shape = UpsertColumns(what, upsert_columns(what, COLUMNS))
    values = ["big", WORDS, None, None, WORDS]
    log = [row_of(0, Event(1, 0, n, None, value)) for n, value in enumerate(values)]
    apart: dict = {}
    for number, event in enumerate(log):
        together: dict = {}
        for stored, fresh in ((apart, [event]), (together, log[: number + 1])):
            for row in merged(spark, shape, fresh, list(stored.values()), [])[0]:
                apply(row, stored)
        assert together == apart
        assert apart[0, 1][2] == ("big" if number < 4 else WORDS)
