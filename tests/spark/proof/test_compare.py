"""Rule: two tables are equal only when every value of every row is; what differs is counted, dated and shown."""

from datetime import UTC, datetime

import pytest

from tidemark.domain.errors import Refused
from tidemark.engine.verify import compare as comparing
from tidemark.engine.verify.compare import compare
from tidemark.engine.verify.comparison import Wanted

VALUES = (
    "SELECT id, named_struct('n', id, 'x', CAST(id AS double)) AS s, array(id, NULL) AS l, "
    "map('a', id, 'b', NULL) AS m, CAST(12345678901234567.12 AS decimal(20, 2)) AS d, CAST('2026-01-01' AS timestamp) + make_interval(0, 0, 0, id) AS at"
)


def test_tables_are_compared_value_by_value(lakehouse):
    """Given copies of a table in another order of rows and of map entries, then they are equal; given one with small faults, each is found."""
    spark = lakehouse.spark()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.compared")
    for name in ("one", "same", "wrong", "typed"):
        spark.sql(f"DROP TABLE IF EXISTS lake.compared.{name}")
    rows = f"{VALUES} FROM (SELECT explode(sequence(0, 3)) AS id)"
    spark.sql(f"CREATE TABLE lake.compared.one USING iceberg AS {rows}")
    spark.sql(
        "CREATE TABLE lake.compared.same USING iceberg AS SELECT m.* EXCEPT (m), map('b', NULL, 'a', id) AS m "
        "FROM (SELECT * FROM lake.compared.one ORDER BY id DESC) m"
    )
    spark.sql(f"CREATE TABLE lake.compared.wrong USING iceberg AS {rows}")
    spark.sql("UPDATE lake.compared.wrong SET l = array(NULL, id), d = 12345678901234567.13 WHERE id = 1")
    spark.sql("UPDATE lake.compared.wrong SET s.x = CAST('-0.0' AS double) WHERE id = 0")
    spark.sql("DELETE FROM lake.compared.wrong WHERE id = 2")
    spark.sql("INSERT INTO lake.compared.wrong SELECT * FROM lake.compared.wrong WHERE id = 3")
    spark.sql("CREATE TABLE lake.compared.typed USING iceberg AS SELECT * EXCEPT (id), CAST(id AS bigint) AS id "
              "FROM lake.compared.one")  # fmt: skip

    def found(other, **how):
        return compare(lakehouse.lake, "compared.one", f"compared.{other}", Wanted(**how))

    same = found("same", by="at").as_json()
    assert same["equal"], same
    assert [g["group"] for g in same["groups"]] == [f"2026-01-0{n}" for n in (1, 2, 3, 4)]
    assert same["table"]["checksum"] == same["other"]["checksum"] != "0" * 16
    wrong = found("wrong", keys=["id"], by="at").as_json()
    assert [g["equal"] for g in wrong["groups"]] == [False] * 4
    closer = wrong["differences"]
    assert (closer["only_in_table"], closer["only_in_other"], closer["changed"]) == (1, 0, 3)
    told = {each["key"]["id"]: each for each in closer["sample"]}
    digits = ["12345678901234567.12", "12345678901234567.13"]  # one and the same float
    assert told[1]["columns"] == {"l": [[1, None], [None, 1]], "d": digits}
    assert list(told[0]["columns"]) == ["s"]
    assert (told[2]["table_rows"], told[2]["other_rows"], told[3]["other_rows"]) == (1, 0, 2)
    assert found("wrong", keys=["id"], by="at", sample=0).closer.sample == ()
    by_value = found("wrong").as_json()["differences"]
    assert (by_value["only_in_table"], by_value["only_in_other"], by_value["changed"]) == (3, 2, 1)
    typed = found("typed").as_json()
    assert typed["columns"]["types_differ"] == {"id": ["int", "bigint"]}
    assert (typed["equal"], typed["differences"]["changed"]) == (False, 0)
    assert found("typed", ignore=frozenset({"id"})).equal
    with pytest.raises(Refused, match="not a column of one type"):
        found("typed", keys=["id"])
    with pytest.raises(Refused, match=r"no table compared.nowhere"):
        found("nowhere")


def test_a_table_is_compared_with_that_of_another_program(lakehouse):
    """Given a foreign table without `_kafka`, when it misses the newest orders, then the days that both have are equal."""
    topic = lakehouse.cluster.topic("parallel", 2)
    topic.send(range(60))
    table = lakehouse.table(topic, event_time="at")
    table.run()
    spark, other = lakehouse.spark(), f"{table.name}_sink"
    spark.sql(
        f"CREATE TABLE lake.{other} USING iceberg AS SELECT * EXCEPT (_kafka) FROM lake.{table.name} WHERE id < 50"
    )
    found = compare(lakehouse.lake, table.name, other, Wanted(keys=["id"])).as_json()
    assert (found["keys"], found["by"]) == (["id"], "at")
    assert (found["equal"], found["differences"]["only_in_table"]) == (False, 10)
    newest, newest_there = (datetime.fromisoformat(found[side]["newest"]) for side in ("table", "other"))
    assert newest > newest_there
    assert newest.tzinfo is not None
    spark.sql(
        f"CREATE TABLE lake.{other}_copy USING iceberg AS SELECT * FROM lake.{table.name} WHERE id <> 7"
    )
    parts = compare(lakehouse.lake, table.name, f"{other}_copy", Wanted(by="_kafka.partition")).as_json()
    assert [(str(g["group"]), g["equal"]) for g in parts["groups"]] == [("0", True), ("1", False)]
    spark.sql(
        f"CREATE TABLE lake.{other}_twice USING iceberg AS SELECT * FROM lake.{table.name} "
        f"UNION ALL SELECT r.* FROM (SELECT * FROM lake.{table.name} WHERE id = 1) r, range(2000)"
    )
    spark.sql(
        f"CREATE TABLE lake.{other}_changed USING iceberg AS "
        f"SELECT id, customer, amount + 1 AS amount, at FROM lake.{other}_twice"
    )
    seen = compare(lakehouse.lake, f"{other}_twice", f"{other}_changed", Wanted(keys=["id"])).as_json()
    assert all(each["key"] for each in seen["differences"]["sample"]), "a key of many rows hides no other"
    spark.sql(f"CREATE TABLE lake.{other}_strange (word string) USING iceberg")
    with pytest.raises(Refused, match="no column in common"):
        compare(lakehouse.lake, table.name, f"{other}_strange", Wanted())
    whole = Wanted(until=datetime(2026, 1, 1, 0, 50, tzinfo=UTC))
    assert compare(lakehouse.lake, table.name, other, whole).equal


def test_figures_by_a_column_show_no_personal_data_and_are_of_values_in_an_order(lakehouse):
    """Given a column that is tagged, then no figures are made by it, asked for or not; given one of maps, bytes or VARIANT, then they are refused or readable."""
    topic = lakehouse.cluster.topic("grouped", 1)
    topic.send(range(3))
    columns = {"customer": {"tags": ["pii"]}, "at": {"tags": ["pii"]}}
    table = lakehouse.table(topic, event_time="at", columns=columns)
    table.run()
    spark, other = lakehouse.spark(), f"{table.name}_copy"
    spark.sql(f"CREATE TABLE lake.{other} USING iceberg AS SELECT * FROM lake.{table.name} WHERE id > 0")
    seen = compare(lakehouse.lake, table.name, other, Wanted()).as_json()
    assert (seen["by"], seen["equal"]) == ("_kafka.timestamp", False), "the contract's event_time is tagged"
    for name in ("customer", "_kafka.key"):
        with pytest.raises(Refused, match=f"by {name} would show its values"):
            compare(lakehouse.lake, table.name, other, Wanted(by=name))
    one, another = f"{table.name}_bytes", f"{table.name}_more_bytes"
    for name, last in ((one, "00"), (another, "01")):
        spark.sql(
            f"CREATE TABLE lake.{name} USING iceberg AS SELECT X'FF' AS b, map('a', 1) AS m, array(1) AS l "
            f"UNION ALL SELECT X'{last}', map(), array()"
        )
    found = compare(lakehouse.lake, one, another, Wanted(by="b")).as_json()
    assert [(g["group"], g["equal"]) for g in found["groups"]] == [("00", False), ("01", False), ("FF", True)]
    assert found["table"]["newest"] == "FF"
    for name in ("m", "l"):
        with pytest.raises(Refused, match=f"{name} is no column of single values"):
            compare(lakehouse.lake, one, another, Wanted(by=name))


def test_a_table_is_compared_after_a_column_that_partitions_it_became_wider(lakehouse, meanwhile):
    """Given a head to which Spark cannot be pinned, when another commit comes while it is read, then both tables are read again."""
    spark = lakehouse.spark()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.compared")
    for name in ("wider", "wide"):
        spark.sql(f"DROP TABLE IF EXISTS lake.compared.{name}")
        spark.sql(
            f"CREATE TABLE lake.compared.{name} (id int, tenant int) USING iceberg PARTITIONED BY (tenant)"
        )
        spark.sql(f"INSERT INTO lake.compared.{name} VALUES (1, 7), (2, 7)")
        spark.sql(f"ALTER TABLE lake.compared.{name} ALTER COLUMN tenant TYPE bigint")
    assert compare(lakehouse.lake, "compared.wider", "compared.wide", Wanted()).equal
    meanwhile(comparing, "look_closer", lambda: spark.sql("INSERT INTO lake.compared.wider VALUES (4, 2)"))
    spark.sql("INSERT INTO lake.compared.wide VALUES (3, 2)")
    found = compare(lakehouse.lake, "compared.wider", "compared.wide", Wanted(keys=["id"])).as_json()
    head = lakehouse.catalog.load_table("compared.wider").metadata.current_snapshot_id
    assert (found["table"]["rows"], found["table"]["snapshot_id"]) == (3, head)
