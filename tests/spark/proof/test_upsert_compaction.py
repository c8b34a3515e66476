"""Rule: a merge and a compaction of the same files meet: one wins, the other plans again, no row is lost, back or twice."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlparse

import pytest
from append_log import AppendLog
from waiting import until

import tidemark.engine.merge.plan as planning
import tidemark.engine.merge.stage as staging
import tidemark.engine.table.publish as publishing
from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.maintenance import compaction
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.health import health
from tidemark.engine.maintain.maintain import maintain

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = Struct((Field("id", LONG), Field("v", STRING), KAFKA_COLUMN))
KEYS, PARTITIONS = 300, 20
"""So many partitions are rewritten for a while, and committed together."""


class Contended:
    """Rows by key over many partitions; every second batch deletes some of them."""

    def __init__(self, lakehouse, format_version):
        self.lakehouse, self.next, self.rows = lakehouse, 0, {}
        upsert = {"keys": ["id"], "partition_by": [f"bucket({PARTITIONS}, id)"]}
        self.log = AppendLog(
            lakehouse,
            COLUMNS,
            value={"format": "json"},
            format_version=format_version,
            upsert=upsert,
            maintenance={"compaction": {"min_input_files": 2}},
        )
        self.name = self.log.current.contract.table

    def send(self, value, *, but=()):
        made = []
        for key in range(KEYS):
            gone = key in but
            kafka = ("t", 0, self.next, NOON, 0, None, None, None, gone, 0)
            made.append((key, None if gone else value, kafka))
            self.next += 1
        self.log.commit(made, {0: self.next})
        self.rows = {key: value for key in range(KEYS) if key not in but}

    def merge(self):
        outcome = catch_up_merges(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        return outcome

    def compact(self, lake):
        """Of the upsert table alone."""
        found = [g for g in maintain(lake, self.log.contract, ("compaction",)) if g.table == self.name]
        assert not found[0].error, found
        return found[0]

    def files(self):
        """Data files that lie there, named by a snapshot or not yet."""
        data = Path(urlparse(self.lakehouse.catalog.load_table(self.name).location()).path) / "data"
        return {each for each in data.rglob("*.parquet") if "deletes" not in each.name}

    def is_the_map(self):
        found = self.lakehouse.catalog.load_table(self.name).scan().to_arrow().to_pylist()
        by_spark = self.lakehouse.spark().sql(f"SELECT id, v FROM {self.name}").collect()
        assert sorted((r["id"], r["v"]) for r in found) == sorted((r["id"], r["v"]) for r in by_spark)
        return sorted((r["id"], r["v"]) for r in found) == sorted(self.rows.items())


class Held:
    """What runs in a thread of its own and stands at `point`, the first time it comes there, until it is let go."""

    def __init__(self, monkeypatch, point, work):
        self.point, self.plans, self.result = point, 0, None
        self._there, self._go = threading.Event(), threading.Event()
        for module in (planning, staging, publishing):
            monkeypatch.setattr(module, "pause_point", self._stand)
        self._thread = threading.Thread(target=lambda: setattr(self, "result", work()))
        self._thread.start()
        assert self._there.wait(90), f"it never came to {point}"

    def _stand(self, here):
        self.plans += here == "planned"
        if here == self.point and not self._there.is_set():
            self._there.set()
            assert self._go.wait(90)

    def go_on(self):
        self._go.set()
        self._thread.join()
        return self.result


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_merge_and_a_compaction_of_the_same_files_meet(lakehouse, monkeypatch, format_version):
    """Given a merge that is staged, when a compaction commits before it, and when it commits in the middle of a
    compaction, then whoever is late does its work again on what the other has left."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    made, other = Contended(lakehouse, format_version), lakehouse.open_lake()
    for value in ("a", "b"):
        made.send(value)
        made.merge()

    made.send("c", but=range(0, KEYS, 7))
    held = Held(monkeypatch, "audited", made.merge)
    assert made.compact(other).acted
    assert (held.go_on().commits, held.plans) == (1, 2), "it was overtaken, and planned again"
    assert made.is_the_map(), "deleted rows stay deleted"

    made.send("d", but=range(0, KEYS, 5))
    held = Held(monkeypatch, "publishing", made.merge)
    there, gains = made.files(), []
    compacting = threading.Thread(target=lambda: gains.append(made.compact(other)))
    compacting.start()
    until(lambda: made.files() - there, "the compaction to begin writing")
    assert held.go_on().commits == 1
    compacting.join()
    again = (gains[0].numbers["conflicts"] > 0, held.plans > 1)
    assert again in {(True, False), (False, True)}, "exactly one of the two came too late"
    assert gains[0].acted
    assert made.is_the_map()
    assert made.merge().commits == 0
    other.close()


def test_deletes_of_files_that_are_gone_are_no_deleted_rows_and_are_cleared_beside_a_merge(
    lakehouse, monkeypatch
):
    """Given a file whose deletes stayed behind as somebody rewrote it, then they ask for no rewrite; they go in one
    commit, a merge that is staged meanwhile plans again, and its deletes stay."""
    log = AppendLog(lakehouse, COLUMNS, value={"format": "json"}, upsert=["id"])
    name, rows, following = log.current.contract.table, {}, 0

    def send(keys, value):
        nonlocal following
        made = []
        for key in keys:
            made.append((key, value, ("t", 0, following, NOON, 0, None, None, None, False, 0)))
            following += 1
        log.commit(made, {0: following})
        rows.update(dict.fromkeys(keys, value))

    def merge():
        assert catch_up_merges(log.lake, log.current, "test").error is None

    for keys, value in ((range(400), "a"), (range(400, 800), "b"), (range(200), "c")):
        send(keys, value)
        merge()
    log.lake.spark().sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('delete-ratio-threshold', '0.1', "
        "'min-file-size-bytes', '1', 'max-file-size-bytes', '1000000000'))"
    )
    state = log.lake.state(name)
    assert (state.delete_files, state.live_rows) == (1, 600), "as summaries count them"
    assert health(log.lake, log.contract).numbers[f"{log.name}_current: delete_ratio"] == 0

    send(range(300, 330), "d")
    held = Held(monkeypatch, "audited", merge)
    (gain,) = [g for g in maintain(log.lake, log.contract, ("compaction",)) if g.table == name]
    assert (gain.acted, gain.numbers["rewrites_planned"], gain.numbers["files_rewritten"]) == (True, 0, 0), (
        gain
    )
    assert "1 delete file of data files that are gone" in gain.reason
    assert (log.lake.state(name).delete_files, log.lake.state(name).live_rows) == (0, 800)
    held.go_on()
    assert held.plans == 2, "it was overtaken, and planned again"
    assert (log.lake.state(name).delete_rows, log.lake.state(name).live_rows) == (30, 800)
    found = lakehouse.catalog.load_table(name).scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["v"]) for r in found) == sorted(rows.items())
