"""A table with records in quarantine that a replay brings in, and whether all is in one place."""

from lakehouse import Lakehouse, Table
from topics import ORDER, order

from tidemark.engine.verify.reconcile import reconcile

NEWER = {**ORDER, "doc": "the same fields, another schema"}


def with_replayable(lakehouse: Lakehouse) -> Table:
    """Forty orders, six more in quarantine that can be read by now, and one record that never can; format 2."""
    topic = lakehouse.cluster.topic("recovered", 2)
    topic.send(range(40))
    known, topic.schema_id = topic.schema_id, lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id
    topic.send_raw((str(n).encode(), topic.encode(order(n)), n % 2) for n in range(40, 46))
    topic.schema_id = known
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic)
    table.run()
    topic.use(NEWER)
    return table


def sound(table: Table, *, rows: int, waiting: int) -> None:
    """Reconcile finds every record once, at this very moment."""
    found = reconcile(table.lakehouse.lake, table.contract)
    assert found.sound, [each.as_json() for each in found.counts]
    assert (sum(c.rows for c in found.counts), sum(c.quarantined for c in found.counts)) == (rows, waiting)
