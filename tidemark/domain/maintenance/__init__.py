"""What maintenance may do to a table: compaction plans, snapshots to keep, retention."""
