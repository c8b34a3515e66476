"""What is computed once belongs to the session that asked, also when the process has another one."""

from tidemark.engine.access.spark import checkpointed, connect


def test_a_checkpoint_belongs_to_its_own_session(stack):
    remote = stack["spark"]["remote"]
    sessions = [connect(remote) for _ in range(2)]
    kept = [checkpointed(each.range(100).where("id > 5")) for each in sessions]
    assert [rows.where("id > 10").count() for rows in kept] == [89, 89]
