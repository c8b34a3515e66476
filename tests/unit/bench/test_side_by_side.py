"""The bench itself: what is put on topics, how runs become figures, when the guard cries."""

import io
import json

import fastavro
import pytest

from bench.sidebyside.columns import Columns
from bench.sidebyside.figures import COMPOSED, figures, of_peer
from bench.sidebyside.guard import ratios, worse
from bench.sidebyside.report import Report
from bench.sidebyside.run import Run
from bench.sidebyside.workload import WORKLOADS, ordered_at

COUNT = 60_000  # more than there are different bodies


def read(workload, value):
    if workload.value_format == "json":
        return json.loads(value)
    assert value[:5] == b"\x00\x00\x00\x00\x07"
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), json.loads(workload.avro))


@pytest.mark.parametrize("name", WORKLOADS)
def test_records_have_all_columns_and_add_up_to_what_is_expected(name):
    workload = WORKLOADS[name]
    values = list(workload.values(COUNT, 7))
    for number in (0, 63, 64, 8191, 8192, COUNT - 1):
        record = read(workload, values[number])
        assert list(record) == list(workload.fields)
        assert record["order_id"] == number
    sums = workload.sums(COUNT)
    assert (sums.rows, sums.distinct, sums.ids) == (COUNT, COUNT, sum(range(COUNT)))
    assert sums.cents == sum(workload.body(n % 50_021)["amount_cents"] for n in range(COUNT))
    assert {field.name for field in Columns(workload).iceberg()[0].fields} == set(workload.fields)


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


def test_the_composed_limit_is_the_sum_of_its_parts():
    names = ("librdkafka consume", "decode only", "parquet only")
    runs = [each for n in names for each in rounds(n, 0.1, 2e-6)]
    assert of_peer(figures(runs, "orders"), COMPOSED).sustained_cpu.median == pytest.approx(6)


def test_the_guard_compares_ratios_to_raw_consumption_so_that_a_slow_machine_is_no_decay():
    assert ratios(report(9e-6)) == {"orders": pytest.approx(9)}
    assert worse(report(9e-6), report(18e-6, raw=2e-6)) == []
    assert worse(report(9e-6), report(10e-6)) == []
    assert "orders: 13.00 × raw consume, was 9.00" in worse(report(9e-6), report(13e-6))[0]


def test_the_page_has_a_row_per_peer_with_ratios():
    page = report(9e-6).markdown()
    row = next(line for line in page.splitlines() if line.startswith("| tidemark"))
    assert row.split("|")[4:6] == [" 1.00 ", " 9.00 "]
    assert "100,000 and 400,000 records, 3 rounds" in page
