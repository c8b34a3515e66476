"""Rule: rows that are copied from another store enter by the contract's rules, each once, and nothing is left out unsaid."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyarrow import parquet
from topics import ORDER

from tidemark.domain.errors import Refused
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.table.operations import Signature

pytestmark = pytest.mark.makes_code

ADA = Signature("ada", "a test", run_id="backfill-1")
DRY = Signature("ada", "a test", dry_run=True)
MAY = datetime(2021, 5, 1, tzinfo=UTC)


def done(table, signature=ADA, **asked):
    return backfill(table.lakehouse.lake, table.contract, Asked(**asked), signature).as_json()["arguments"]


def beside(lakehouse, name, orders, **rules):
    """A table that has one order of its own topic, and a sink's table of `orders`, which are (id, customer, time)."""
    topic = lakehouse.cluster.topic(name, 1)
    topic.send_at([1_000_000], MAY + timedelta(days=1_000))
    table = lakehouse.table(topic, event_time="at", **rules)
    table.run()
    shape = "CAST(id AS long) id, customer, CAST(at AS timestamp) at, 1D AS amount"
    sink = f"{table.name}_sink"
    lakehouse.spark().sql(
        f"CREATE TABLE lake.{sink} USING iceberg AS SELECT {shape} "
        f"FROM VALUES {orders} AS t(id, customer, at)"
    )
    return table, f"table:{sink}"


def test_rows_that_break_a_rule_are_counted_and_published_only_by_rules_that_warn(lakehouse):
    """Given copied rows that break rules which quarantine, block and warn, when they are loaded, then each rule's rows are counted, by the dry run too, and nothing is published until the rules of two kinds are changed."""
    orders = "(-1, 'ann', '2021-05-01'), (2, NULL, '2021-05-01'), (-3, 'bob', '2021-05-02'), (4, 'eve', '2021-05-01')"
    positive = {"check": "in_range", "column": "id", "min": 0}
    named = {"sql": "customer IS NOT NULL", "name": "named", "on_failure": "block"}
    known = {"check": "in_set", "column": "customer", "values": ["ann", "bob"], "on_failure": "warn"}
    table, source = beside(lakehouse, "judged", orders, quality=[positive, named, known])
    span = {"since": MAY, "until": MAY + timedelta(days=2), "source": source}
    seen, told = done(table, DRY, **span), done(table, **span)
    for each in (seen, told):
        assert [(r["rule"], r["failed"]) for r in each["rules"]] == [
            ("in_range_id", 2), ("named", 1), ("in_set_customer", 1)
        ]  # fmt: skip
        assert each["rules"][0]["samples"][1] == {"partition": 0, "offset": 1, "values": {"id": "-3"}}
        assert "in_range_id (id lies in [0, ∞)): 2 rows; named (" in each["hinders"]
    assert told["next_step"].startswith("load from a copy without these rows, or change the rule")
    for signature in (DRY, ADA):
        with pytest.raises(Refused, match="cannot be published: rules of the contract do not hold"):
            done(table, signature, cutover=True)
    assert table.ids() == [1_000_000]
    warned = [{**rule, "on_failure": "warn"} for rule in (positive, named, known)]
    lenient = lakehouse.table(table.topic, event_time="at", quality=warned)
    whole = done(lenient, cutover=True)
    assert (whole["cutover"]["rows"], [r["failed"] for r in whole["rules"]]) == (4, [2, 1, 1])
    assert lenient.ids() == [-3, -1, 2, 4, 1_000_000]


def test_only_windows_from_the_first_row_to_the_last_are_copied(lakehouse, monkeypatch):
    """Given rows of two days, one of them far from the other, and a range that begins in 1970, when they are loaded, then no window before or after them is, the whole range is replaced, and a row without a time is told."""
    orders = "(1, 'ann', '2021-05-01'), (2, 'bob', '2021-05-03'), (3, 'eve', '2021-05-03'), (4, 'who', NULL)"
    table, source = beside(lakehouse, "ages", orders)
    span = {"since": datetime(1970, 1, 1, tzinfo=UTC), "until": MAY + timedelta(days=90), "source": source}
    said = []
    with monkeypatch.context() as patched:
        patched.delattr("tidemark.engine.operate.backfill.act.in_range")  # the plan has counted them
        seen = done(table, DRY, **span)
    told = done(table, **span, pace=Pace(say=said.append))
    for each in (seen, told):
        assert (each["rows"], each["windows_planned"], each["rows_without_time"]) == (3, 3, 1)
    assert [(w["from"][:10], w["written"]) for w in told["windows"]] == [
        ("2021-05-01", 1), ("2021-05-02", 0), ("2021-05-03", 2)
    ]  # fmt: skip
    assert said[-1] == "3 rows loaded, 3 of 3 windows"
    whole = done(table, cutover=True)
    assert (whole["cutover"]["rows"], whole["windows_equal"], whole["rows_without_time"]) == (3, 3, 1)
    assert whole["cutover"]["since"].startswith("1970-01-01")
    assert table.ids() == [1, 2, 3, 1_000_000]


def test_a_copy_goes_on_after_the_table_has_gained_a_column(lakehouse):
    """Given a load that ended between two windows, when the table gains a column meanwhile, then the same command goes on, and the copied rows have no value there."""
    orders = "(1, 'ann', '2021-05-01'), (2, 'bob', '2021-05-02')"
    table, source = beside(lakehouse, "growing", orders)
    span = {"since": MAY, "until": MAY + timedelta(days=2), "source": source}

    def ended(said):
        if "1 of 2 windows" in said:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(table, **span, pace=Pace(say=ended))
    note = {"name": "note", "type": ["null", "string"], "default": None}
    table.topic.use({**ORDER, "fields": [*ORDER["fields"], note]})
    table.topic.send([1_000_001])
    table.run()
    whole = done(table, **span, cutover=True)
    assert (whole["cutover"]["rows"], whole["windows_equal"]) == (2, 2)
    rows = lakehouse.catalog.load_table(table.name).scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["note"]) for r in rows) == [
        (each, None) for each in (1, 2, 1_000_000, 1_000_001)
    ]  # fmt: skip


def test_rows_that_another_source_has_brought_into_the_same_time_are_told(lakehouse, tmp_path):
    """Given an export that was published, when it is loaded under another spelling, then each step says how many rows of the first lie in that time."""
    orders = "(1, 'ann', '2021-05-01'), (2, 'bob', '2021-05-02')"
    table, source = beside(lakehouse, "spelled", orders)
    export = f"file://{tmp_path}/export"
    lakehouse.spark().table(f"lake.{source[6:]}").write.parquet(export)
    span = {"since": MAY, "until": MAY + timedelta(days=1)}
    plain, glob = f"parquet:{export}", f"parquet:{export}/*.parquet"
    whole = done(table, source=plain, since=MAY, until=MAY + timedelta(days=2), cutover=True)
    assert "rows_of_other_sources" not in whole
    asked = [(DRY, {**span, "source": glob}), (ADA, {**span, "source": glob}), (ADA, {"cutover": True})]
    for signature, said in asked:
        [(first, rows)] = done(table, signature, **said)["rows_of_other_sources"].items()
        assert (first.startswith("parquet:"), first.endswith("/export"), rows) == (True, True, 1)
    own = done(table, since=MAY, until=MAY + timedelta(days=2_000))
    assert list(own["rows_of_other_sources"].values()) == [2, 1]


def exported(folder, name, ids, **columns):
    """A Parquet file of orders at the first of May; returns the source that its folder is."""
    folder.mkdir(parents=True, exist_ok=True)
    at = pa.array([MAY] * len(ids), pa.timestamp("us", tz="UTC"))
    whole = {"id": pa.array(ids, pa.int64()), "at": at, **columns}
    parquet.write_table(pa.table(whole), folder / f"{name}.parquet")
    return f"parquet:file://{folder}"


def test_files_of_several_schemas_are_read_whole_or_refused(lakehouse, tmp_path):
    """Given files of which one lacks a column, has one that the table lacks or another type, or lies in a folder within, then every value is loaded or nothing is, whatever the names of the files."""
    table, _ = beside(lakehouse, "differing", "(1, 'ann', '2021-05-01')")
    span = {"since": MAY, "until": MAY + timedelta(days=1)}
    exported(tmp_path / "lacks", "a", [1])
    exported(tmp_path / "lacks", "b", [], amount=pa.array([], pa.float64()))
    lacks = exported(tmp_path / "lacks", "c", [2], customer=["bob"], amount=[2.5])
    assert done(table, source=lacks, **span, cutover=True)["windows_equal"] == 1
    rows = lakehouse.catalog.load_table(table.name).scan(row_filter="id < 10").to_arrow().to_pylist()
    assert sorted((r["id"], r["customer"], r["amount"]) for r in rows) == [(1, None, None), (2, "bob", 2.5)]
    for name, columns, why in (
        ("more", {"extra": [1]}, "extra: missing"),
        ("typed", {"customer": [7]}, "customer"),
    ):
        exported(tmp_path / name, "a", [3], customer=["eve"])
        source = exported(tmp_path / name, "b", [4], **columns)
        for signature in (DRY, ADA):
            with pytest.raises(Refused, match=why):
                done(table, signature, source=source, **span)
    within = exported(tmp_path / "within", "a", [5])
    exported(tmp_path / "within" / "deeper", "b", [6])
    exported(tmp_path / "beside" / "customer=flo", "a", [5])
    beside_it = exported(tmp_path / "beside", "b", [6])
    for source, left in ((within, "within/deeper/b"), (beside_it, "beside/b")):
        with pytest.raises(Refused, match=rf"would leave out 1, like file:/.*/{left}\.parquet"):
            done(table, DRY, source=source, **span)
    exported(tmp_path / "folders" / "y1", "a", [5])
    with pytest.raises(Refused, match="would leave out 1"):
        done(table, DRY, source=f"parquet:file://{tmp_path}/folders", **span)
    with pytest.raises(Refused, match="finds no Parquet files"):
        done(table, DRY, source=f"parquet:file://{tmp_path}/nowhere", **span)
    void = exported(tmp_path / "void", "a", [7], customer=pa.nulls(1))
    assert done(table, DRY, source=void, **span)["rows"] == 1
    exported(tmp_path / "parts of" / "customer=flo", "a", [8])
    parts = exported(tmp_path / "parts of" / "customer=eva", "b", [9]).removesuffix("/customer=eva")
    assert done(table, DRY, source=parts, **span)["rows"] == 2
    assert done(table, source=exported(tmp_path / "cut", "a", [10]), **span)["step"] == "load"
    exported(tmp_path / "cut", "a", [10, 11])
    with pytest.raises(Refused, match="other files than when the load began"):
        done(table, cutover=True)
    assert done(table, abort=True)["rows_dropped"] == 1

    def meanwhile(_):
        exported(tmp_path / "cut", "a", [10, 11, 12])

    with pytest.raises(Refused, match="other files than when the load began"):
        done(table, source=f"parquet:file://{tmp_path}/cut", **span, cutover=True, pace=Pace(say=meanwhile))
    assert 12 not in table.ids()
    (tmp_path / "cut" / "a.parquet").write_bytes(b"PAR1 is not enough of it")
    with pytest.raises(Refused, match="Spark cannot read the Parquet files") as refused:
        done(table, cutover=True)
    assert "--abort" in refused.value.next_step
    assert done(table, abort=True)["rows_dropped"] == 2


def test_a_source_that_was_corrected_is_loaded_again_by_the_same_command(lakehouse, tmp_path):
    """Given a published backfill, when its source stays, then the same command does nothing; when rows of it are others, then they take the place of the first ones."""
    table, sink = beside(lakehouse, "corrected", "(1, 'ann', '2021-05-01')")
    export = exported(tmp_path / "export", "a", [2], customer=["bob"])
    day, name = timedelta(days=1), sink.partition(":")[2]
    spans = {sink: (MAY, MAY + day), export: (MAY, MAY + day * 2)}

    def publish(source):
        since, until = spans[source]
        return done(table, source=source, since=since, until=until, cutover=True)

    def customers():
        rows = lakehouse.catalog.load_table(table.name).scan(row_filter="id < 10").to_arrow().to_pylist()
        return sorted((row["id"], row["customer"]) for row in rows)

    publish(sink)
    assert publish(sink)["already_there"] is True
    lakehouse.spark().sql(f"UPDATE lake.{name} SET customer = 'Ann'")
    assert "already_there" not in publish(sink)
    assert customers() == [(1, "Ann")]
    publish(export)
    assert publish(export)["already_there"] is True
    exported(tmp_path / "export", "a", [2, 3], customer=["Bob", "eve"])
    assert "already_there" not in publish(export)
    assert customers() == [(1, "Ann"), (2, "Bob"), (3, "eve")]
    exported(tmp_path / "export", "b", [4], customer=[4])
    with pytest.raises(Refused, match="cannot read"):
        publish(export)
    for file in (tmp_path / "export").iterdir():
        file.unlink()
    assert publish(export)["already_there"] is True
