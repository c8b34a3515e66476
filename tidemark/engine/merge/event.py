"""The words of an event, as columns and values: rows of both tables and remembered deletes are told in them alike."""

KEY, ORDER, PLACE, KIND, ORIGIN, AFTER = "k", "o", "at", "kind", "origin", "after"
ROW, CAME = "r", "came"
"""What a row holds; how many new events an event stands for."""
UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"
UNDONE, RETOLD, UNTOLD, ERASED, REMEMBERED, STORED, NEW = range(7)
"""Where an event comes from; of equal events the later here wins. The first four are stored rows: UNDONE no longer
counts; RETOLD counts for values that no event brings any more; UNTOLD stays if no other event of its key is known;
ERASED was truncated and stays, marked (soft deletes)."""
GONE = (UNDONE, RETOLD, UNTOLD, ERASED)
