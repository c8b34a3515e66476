"""The bench itself: what is put on topics, how runs become figures, when the guard cries."""

import base64
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import fastavro
import pytest

from bench.sidebyside import __main__ as side_by_side
from bench.sidebyside.columns import Columns
from bench.sidebyside.figures import COMPOSED, figures, of_peer
from bench.sidebyside.freshness import Freshness, save
from bench.sidebyside.guard import ratios, stored, verdict, worse
from bench.sidebyside.peers.flink import STRUCT, compile_java
from bench.sidebyside.peers.proto_arrow import message_class, to_arrow
from bench.sidebyside.report import BY_KEY, COLUMNS, Report, load
from bench.sidebyside.run import Run
from bench.sidebyside.workload import WORKLOADS, Sums, ordered_at
from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.engine.access.iceberg_types import columns_of

COUNT, FEW = 60_000, 8_200  # more than there are different bodies, and less


def read(workload, value):
    if workload.value_format == "json":
        return json.loads(value)
    if workload.value_format == "protobuf":
        return to_arrow(message_class(base64.b64decode(workload.descriptors)), [value]).to_pylist()[0]
    assert value[:5] == b"\x00\x00\x00\x00\x07"
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), json.loads(workload.avro))


@pytest.mark.parametrize("name", WORKLOADS)
def test_records_have_all_columns_and_are_what_the_workload_says(name):
    workload = WORKLOADS[name]
    values = list(workload.values(FEW, 7))
    for number in (0, 63, 64, 8191, 8192, FEW - 1):
        record = read(workload, values[number])
        assert list(record) == list(workload.fields)
        assert record["order_id"] == workload.key(number, FEW)
        at = datetime.fromisoformat(str(record["ordered_at"]))
        assert at == datetime.fromtimestamp(ordered_at(number, FEW) / 1000, UTC)
        assert {name: record[name] for name in workload.body(0)} == workload.body(number % 50_021)
    assert {field.name for field in Columns(workload).iceberg()[0].fields} == set(workload.fields)


def test_peers_may_write_what_tidemark_writes_of_where_a_row_comes_from():
    schema, _ = Columns(WORKLOADS["nested"], kafka=True).iceberg()
    [ours] = [each for each in columns_of(schema).fields if each.name not in WORKLOADS["nested"].fields]
    assert (ours.name, str(ours.type)) == (KAFKA_COLUMN.name, str(KAFKA_COLUMN.type))
    assert re.findall(r"`(\w+)` [A-Z]", STRUCT.replace("ROW<`key` STRING, `value` BYTES>", "")) == [
        each.name for each in KAFKA_COLUMN.type.fields
    ]


@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if w.changes == 1])
def test_rows_of_new_records_add_up(name):
    workload = WORKLOADS[name]
    sums = workload.sums(COUNT)
    assert (sums.rows, sums.distinct, sums.ids) == (COUNT, COUNT, sum(range(COUNT)))
    assert sums.cents == sum(workload.body(n % 50_021)["amount_cents"] for n in range(COUNT))


def test_of_changes_the_last_of_each_key_is_left_and_all_of_a_key_are_on_one_partition():
    workload = WORKLOADS["upserts"]
    state, cents, times = {}, {}, 0
    for key, value in workload.records(1000, 7):
        record = read(workload, value)
        assert record["order_id"] == key
        state[key], cents[key] = int(record["ordered_at"].timestamp() * 1000), record["amount_cents"]
        times += 1
    sums = workload.sums(1000)
    assert times > 3 * len(state)
    assert sums == Sums(len(state), len(state), sum(state), sum(cents.values()), state)
    assert sums != replace(sums, state={**state, min(state): 0})


def test_an_orders_record_is_about_160_bytes_and_a_nested_one_about_a_kilobyte():
    sizes = {n: sum(map(len, WORKLOADS[n].values(1000, 7))) / 1000 for n in ("orders", "nested")}
    assert 140 < sizes["orders"] < 180
    assert 850 < sizes["nested"] < 1200


def test_a_topic_runs_over_three_days_whatever_its_size():
    assert {ordered_at(n, count) // 86_400_000 for count in (10, 999) for n in range(count)} == {
        20454,
        20455,
        20456,
    }


def run(peer, records, cpu, seconds=1.0):
    return Run(peer, "orders", records, records * 100, cpu, seconds, 100)


def rounds(peer, start, each, times=3):
    return [
        run(peer, n, start + n * each, start + n * each) for _ in range(times) for n in (100_000, 400_000)
    ]


def report(ours, raw=1e-6):
    runs = [*rounds("tidemark", 20, ours), *rounds("librdkafka consume", 0.2, raw)]
    return Report("quick", "then", {}, runs, {})


def test_what_starting_costs_is_not_in_the_sustained_figure():
    found = of_peer(figures(rounds("tidemark", 20, 9e-6), "orders"), "tidemark")
    assert found.sustained_cpu.median == pytest.approx(9)
    assert found.whole_cpu.median == pytest.approx(9 + 20 / 400_000 * 1e6)
    assert found.pace.median == pytest.approx(1 / 9e-6)


def test_a_peer_that_waits_as_long_for_any_number_of_records_has_a_time_and_no_pace():
    waits = [run("connect", n, n * 7e-6, seconds) for n, seconds in ((100_000, 125.3), (400_000, 124.6))]
    goes_on = rounds("tidemark", 20, 9e-6)
    page = Report("full", "then", {}, [*goes_on, *waits], {}).markdown()
    cells = {
        line.split(" | ")[0].strip("| "): line.split(" | ") for line in page.splitlines() if " | " in line
    }
    pace, time = (COLUMNS.index(name) + 1 for name in ("records/s, sustained", "drain s"))
    assert (cells["connect"][pace], cells["connect"][time]) == ("", "124.6 / 124.6 / 124.6")
    assert cells["tidemark"][pace] == "111,111"


def test_the_composed_limit_is_the_sum_of_its_parts():
    names = ("librdkafka consume", "decode only", "parquet only")
    runs = [each for n in names for each in rounds(n, 0.1, 2e-6)]
    assert of_peer(figures(runs, "orders"), COMPOSED).sustained_cpu.median == pytest.approx(6)


def test_the_guard_compares_ratios_to_raw_consumption_so_that_a_slow_machine_is_no_decay():
    assert ratios(report(9e-6)) == {"orders": pytest.approx(9)}
    assert worse([report(9e-6)], report(18e-6, raw=2e-6)) == []
    assert worse([report(9e-6)], report(10e-6)) == []
    assert "orders: 13.00 × raw consume, was 9.00" in worse([report(9e-6)], report(13e-6))[0]


def test_small_steps_that_add_up_are_decay():
    steps = [report(each * 1e-6) for each in (9, 7, 8.5, 10, 12, 13.5, 16)]
    assert all(worse(steps[:n], steps[n]) == [] for n in range(2, 6))
    assert worse(steps[:6], steps[6]) == ["orders: 16.00 × raw consume, was 7.00 on then"]


def test_results_of_other_sizes_are_not_compared():
    smaller = replace(
        report(5e-6), runs=[replace(each, records=each.records // 2) for each in report(5e-6).runs]
    )
    assert worse([smaller], report(18e-6)) == []


@pytest.mark.parametrize(
    "failed", [{"tidemark on json": "exit 1"}, {"librdkafka consume on json": "exit 1"}, {}]
)
def test_a_workload_without_figures_of_ours_is_not_passed_over(failed):
    alone = [replace(each, workload="nested") for each in rounds("librdkafka consume", 0.2, 1e-6)]
    newest = report(9e-6)
    newest = replace(newest, failed=failed) if failed else replace(newest, runs=[*newest.runs, *alone])
    well, why = verdict([report(9e-6), newest])
    assert not well
    assert why.endswith("on json" if failed else "on nested")


def test_a_peer_that_cannot_be_made_ready_has_failed_and_the_others_go_on(tmp_path, monkeypatch):
    """Given a Java without a compiler, when peers are compiled, then that is said of them, and the next is made ready."""
    place, made = SimpleNamespace(home=tmp_path, java=tmp_path / "java"), []

    class Compiled:
        name, kinds = "compiled", frozenset({"avro"})

        def prepare(self, ground):
            compile_java(ground, [], "")

    ready = SimpleNamespace(name="ready", kinds=Compiled.kinds, prepare=made.append)
    monkeypatch.setattr(side_by_side, "PEERS", (Compiled(), ready))
    profile, failed = side_by_side.Profile({"orders": 4, "json": 4}, 0, ("compiled", "ready")), {}
    assert side_by_side.measure(place, profile, failed) == []
    assert made == [place]
    assert failed == {"compiled on orders": f"a JDK is needed: there is no {tmp_path / 'javac'}"}


def test_a_peer_that_failed_is_no_fault_of_ours():
    assert verdict([replace(report(9e-6), failed={"flink on orders": "exit 1"})])[0]


def test_the_guard_is_content_with_a_first_result_and_not_with_one_that_has_no_figures():
    nothing = Report(
        "quick", "now", {}, rounds("librdkafka consume", 0.2, 1e-6), {"tidemark on orders": "exit 1"}
    )
    assert verdict([report(9e-6)])[0]
    assert verdict([report(9e-6), report(10e-6)])[0]
    assert not verdict([report(9e-6), report(13e-6)])[0]
    assert not verdict([report(9e-6), nothing])[0]
    assert not verdict([])[0]


def test_the_guard_looks_past_a_result_that_has_no_figures():
    failed = Report("quick", "then", {}, rounds("librdkafka consume", 0.2, 1e-6), {})
    assert not verdict([report(9e-6), failed, report(13e-6)])[0]


def test_a_stored_result_is_found_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.sidebyside.report.RESULTS", tmp_path)
    (tmp_path / "2026-01-01T0000Z-full.json").write_text("{}")
    saved = Report("quick", "2026-01-02T0000Z", {}, report(9e-6).runs, {})
    saved.save()
    (path,) = stored("quick", tmp_path)
    assert ratios(load(path)) == ratios(saved)
    assert (tmp_path / "2026-01-02T0000Z-quick-orders.svg").exists()


def test_what_reading_costs_has_a_column_where_tables_are_written_by_key():
    page = report(9e-6).markdown()
    by_key = replace(report(9e-6), runs=[replace(each, reading=1.5) for each in report(9e-6).runs]).markdown()
    assert BY_KEY not in page
    head, _, first, *_ = (line for line in by_key.splitlines() if line.startswith("|"))
    assert head.split("|")[-2].strip() == BY_KEY
    assert first.split("|")[-2].strip() == "1.50"


def test_the_page_has_a_row_per_peer_with_ratios():
    page = report(9e-6).markdown()
    row = next(line for line in page.splitlines() if line.startswith("| tidemark"))
    assert row.split("|")[4:6] == [" 1.00 ", " 9.00 "]
    assert "100,000 and 400,000 records, 3 rounds" in page


def test_the_page_of_freshness_has_all_figures_beside_tidemark(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.sidebyside.freshness.RESULTS", tmp_path)
    found = [
        Freshness("tidemark", 2, 6000, 1.0, 2.0, 3.0, 28.0, 0.5, 0.01, 900, 1.0),
        Freshness("flink", 2, 6000, 1.5, 3.0, 9.0, 30.0, 1.0, 0.1, 1000, 0.0),
    ]
    path = save(found, {"every": 2, "topics": 20, "rate": 10.0, "minutes": 10.0})
    row = next(line for line in path.read_text().splitlines() if line.startswith("| flink"))
    assert row == "| flink | 1.5 | 3.0 | 9.0 | 1.50 | 30.0 | 100.0 | 1.00 | 6.0 | 1000 |"
    assert "1.5 / 3.0 / 9.0" in path.with_suffix(".svg").read_text()
    assert f"]({path.stem}.svg)" in path.read_text()
