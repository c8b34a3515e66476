"""What an operator may do: accept, approve, pause, replay, roll back. Each act is a row of the operations log."""
