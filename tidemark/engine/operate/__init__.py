"""Acts of an operator: accept, approve, backfill, pause, replay, roll back. Each is a row of the operations log."""
