"""Every goal beside what was found: which are met, and what the page says."""

import json

import pytest

from bench.goals import _JUDGES, ALIKE, FEWER, SCRIPT, goals, page
from bench.sidebyside.figures import OURS, RAW
from bench.sidebyside.run import Run

FOUND = {
    "trickle-2s": [
        {"peer": "flink", "p50": 1.2, "p95": 2.1, "commits": 19.0},
        {"peer": OURS, "p50": 1.1, "p95": 1.6, "commits": 21.0},
    ],
    "trickle-60s": [{"peer": OURS, "p50": 30.0, "p95": 60.0, "commits": 1.04}],
    "many": {
        "one run": {"seconds": 30.0},
        "a run per topic, 10": {"seconds": 10.0},
        "a streaming query per topic": {"seconds": 40.0},
    },
    "growth-commits": {"100": {"ms": 300.0}, "500": {"ms": 900.0}, "1000": {"ms": 300.0}},
    "growth-partitions": {
        "1": {"ms": 200.0, "cpu_us_per_record": 3.0},
        "256": {"ms": 300.0, "cpu_us_per_record": 3.1},
    },
    "growth-tables": {
        "10": {"definitions_ms": 80.0, "tick_cpu_ms": 18.0},
        "100": {"definitions_ms": 230.0, "tick_cpu_ms": 22.0},
        "1000": {"definitions_ms": 2300.0, "tick_cpu_ms": 134.0},
    },
}
GIVEN = {"topics": 100, "records": 1000, "single": 10}
COSTS = {
    OURS: 2.0,
    ALIKE[0]: 4.1,
    ALIKE[1]: 6.0,
    FEWER[0]: 9.0,
    FEWER[1]: 5.0,
    FEWER[2]: 4.0,
    SCRIPT: 2.0,
    RAW: 1.0,
}
ALL = (
    "the same table",
    "whatever they leave out",
    "one would write",
    "drain",
    "memory",
    "target_lag 2s",
    "target_lag 60s",
    "100 topics",
    "200 quiet",
    "1,000 commits",
    "by partitions",
    "by tables",
)


@pytest.fixture
def results(tmp_path):
    """A stored result of each part, in which every goal is just met."""
    runs = [
        Run(peer, "orders", records, 145 * records, 8 + cost * records / 1e6, 5 + cost * records / 1e6, 1000)
        for peer, cost in COSTS.items()
        for records in (1_000_000, 4_000_000)
    ]
    whole = {name: {"given": GIVEN, "found": found} for name, found in FOUND.items()}
    whole["full"] = {
        "profile": "full", "at": "", "machine": {}, "failed": {}, "runs": [run.as_json() for run in runs],
    }  # fmt: skip
    whole["idle"] = {"cores": {"api grpc": 0.02, "dagster-daemon": 0.01, "ConnectServer": 0.3}}
    for name, each in whole.items():
        (tmp_path / f"2026-01-01T0000Z-{name}.json").write_text(json.dumps(each))
    return {name: tmp_path / f"2026-01-01T0000Z-{name}.json" for name in whole}


def missed(results):
    return [goal.figure for goal in goals(results) if not goal.met]


def test_what_is_just_reached_is_met(results):
    found = list(goals(results))
    assert len(found) == len(ALL)
    assert all(words in goal.figure for words, goal in zip(ALL, found, strict=True))
    assert missed(results) == []
    assert page(found, results, "now").count("| yes |") == len(ALL)


@pytest.mark.parametrize(
    ("part", "path", "value", "goal"),
    [
        ("trickle-2s", ("found", 0, "p95"), 1.6, "target_lag 2s"),
        ("trickle-2s", ("found", 1, "p95"), 3.1, "target_lag 2s"),
        ("trickle-60s", ("found", 0, "p95"), 76.0, "target_lag 60s"),
        ("trickle-60s", ("found", 0, "commits"), 1.06, "target_lag 60s"),
        ("many", ("found", "a run per topic, 10", "seconds"), 8.9, "100 topics"),
        ("many", ("found", "a streaming query per topic", "seconds"), 29.0, "100 topics"),
        ("idle", ("cores", "api grpc"), 0.021, "200 quiet"),
        ("growth-commits", ("found", "1000", "ms"), 400.0, "1,000 commits"),
        ("growth-partitions", ("found", "256", "cpu_us_per_record"), 800.0, "by partitions"),
        ("growth-tables", ("found", "1000", "tick_cpu_ms"), 300.0, "by tables"),
    ],
)
def test_each_goal_is_missed_alone(results, part, path, value, goal):
    whole = json.loads(results[part].read_text())
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    results[part].write_text(json.dumps(whole))
    [found] = missed(results)
    assert goal in found


@pytest.mark.parametrize(
    ("peer", "field", "factor", "goals_missed"),
    [
        (ALIKE[0], "cpu", 0.95, ["the same table"]),
        (FEWER[2], "cpu", 0.7, ["whatever they leave out"]),
        (SCRIPT, "cpu", 0.9, ["one would write"]),
        (FEWER[0], "seconds", 0.1, ["drain"]),
        (OURS, "memory", 2, ["memory"]),
    ],
)
def test_each_goal_of_drains_is_missed_alone(results, peer, field, factor, goals_missed):
    whole = json.loads(results["full"].read_text())
    for run in whole["runs"]:
        if run["peer"] == peer and run["records"] == 4_000_000:
            run[field] *= factor
    results["full"].write_text(json.dumps(whole))
    assert [words for words in ALL for each in missed(results) if words in each] == goals_missed


def test_a_part_without_our_figures_is_no_success(results):
    whole = json.loads(results["full"].read_text())
    whole["runs"] = [run for run in whole["runs"] if run["peer"] != OURS]
    results["full"].write_text(json.dumps(whole))
    with pytest.raises(LookupError, match="no figures of tidemark"):
        list(goals(results))
    found = list(goals(dict.fromkeys(results)))
    assert [(each.figure, each.met) for each in found] == [(name, False) for name in _JUDGES]
    assert page(found, dict.fromkeys(results), "now").count("**no**") == len(results)
