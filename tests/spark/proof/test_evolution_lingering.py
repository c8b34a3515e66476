"""Rule: a run that lingers follows every schema that is registered meanwhile, as a fresh one would."""

import struct
import uuid
from datetime import timedelta

from topics import ORDER, Topic, order

from tidemark.domain.config.platform import Lane
from tidemark.engine.lane.append_work import AppendWork
from tidemark.engine.lane.serve import serve
from tidemark.engine.schema.history import history
from tidemark.engine.verify.reconcile import reconcile

OPEN = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
WITH_ANY = {**OPEN, "properties": {**OPEN["properties"], "any": {}}}


def with_lines(kind):
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": kind}]}
    lines = {"name": "lines", "type": {"type": "array", "items": line}, "default": []}
    return {**ORDER, "fields": [*ORDER["fields"], lines]}


class Documents(Topic):
    """JSON with a registered JSON Schema."""

    def use(self, schema):
        self.schema_id = self.register(schema, "JSON")

    def write(self, text):
        self.send_raw([(b"k", struct.pack(">bI", 0, self.schema_id) + text.encode(), 0)])


def test_columns_appear_while_a_run_lingers_and_no_record_is_there_twice(lakehouse):
    """Given a run that has caught up, when writers add a list, widen inside it, go back, and another topic gets a VARIANT, then that same run has it all."""
    topic = lakehouse.cluster.topic("lingering", 2)
    topic.send(range(10))
    documents = Documents(lakehouse.cluster, f"lingering_{uuid.uuid4().hex[:6]}", {})
    documents.create(1)
    documents.use(OPEN)
    documents.write('{"id": 0}')
    avro = lakehouse.table(topic, target_lag="1s")
    loose = lakehouse.table(documents, target_lag="1s", format_version=3)
    work = AppendWork(lakehouse.open_lake(), "lingers", ())
    reports = serve(
        work,
        [avro.contract, loose.contract],
        Lane(poll="1s", linger="1m"),
        report_every=timedelta(0),
        called_away=lambda: None,
        log=lambda _: None,
    )

    def served(table, records):
        while lakehouse.lake.state(table.name).rows < records:
            assert not next(reports).final

    served(avro, 10)
    served(loose, 1)
    expected = dict.fromkeys(range(10))
    for kind, big in (("int", 7), ("long", 2**40)):
        old, expected_lines = len(expected), [{"n": big}]
        topic.use(with_lines(kind))
        new = [topic.encode({**order(n), "lines": expected_lines}) for n in range(old, old + 4)]
        topic.use(ORDER)
        before = [topic.encode(order(n)) for n in range(old + 4, old + 8)]
        pairs = [each for pair in zip(new, before, strict=True) for each in pair]
        topic.send_raw((b"k", value, turn // 2 % 2) for turn, value in enumerate(pairs))
        expected |= {n: expected_lines if n < old + 4 else [] for n in range(old, old + 8)}
        served(avro, len(expected))
    documents.use(WITH_ANY)
    documents.write('{"id": 1, "any": {"a": [1.25]}}')
    documents.write('{"id": 2, "any": 12345678901234567890}')
    served(loose, 3)
    assert reconcile(lakehouse.lake, loose.contract).sound
    work.stop.set()
    assert {report.outcome.state for report in reports if report.final} == {"fresh"}
    rows = avro.iceberg().scan(selected_fields=("id", "lines")).to_arrow().to_pylist()
    by_spark = lakehouse.spark().table(f"lake.{avro.name}").select("id", "lines").toArrow().to_pylist()
    assert {row["id"]: row["lines"] for row in by_spark} == expected
    assert len(rows) == len(by_spark) == len(expected)
    avro.holds_everything()
    told = [
        (e["run_id"], [c["kind"] for c in e["changes"]]) for e in history(lakehouse.lake.state(avro.name))
    ]
    assert told == [("lingers", ["add_column"]), ("lingers", ["widen_type"])]
    found = lakehouse.spark().sql(f"SELECT id, to_json(any) FROM lake.{loose.name} ORDER BY id").collect()
    assert [tuple(each) for each in found] == [
        (0, None),
        (1, '{"a":[1.25]}'),
        (2, "12345678901234567890"),
    ]
