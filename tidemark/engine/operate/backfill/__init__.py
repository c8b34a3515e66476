"""A backfill: history loaded into a shadow of the table, compared, and merged in at the cutover."""
