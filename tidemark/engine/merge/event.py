"""The words of an event, as columns and values: rows of both tables and remembered deletes are told in them alike."""

KEY, ORDER, PLACE, KIND, ORIGIN, AFTER = "k", "o", "at", "kind", "origin", "after"
ROW, CAME = "r", "came"
"""What a row holds; how many new events an event stands for."""
UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"
UNDONE, RETOLD, UNTOLD, ERASED, REMEMBERED, STORED, NEW = range(7)
"""Where an event comes from; among equals the later one wins. UNDONE: a stored row that no longer counts. RETOLD: one
of which only the values count that no event tells, for retention may have taken who did. UNTOLD: one that stays unless
anything is known of its key. ERASED: one that a truncation took, and that stays, marked (soft deletes)."""
GONE = (UNDONE, RETOLD, UNTOLD, ERASED)
