"""The words of an event, as columns and values: rows of both tables and remembered deletes are told in them alike."""

KEY, ORDER, PLACE, KIND, ORIGIN, AFTER = "k", "o", "at", "kind", "origin", "after"
ROW, CAME = "r", "came"
"""What a row holds; how many new events an event stands for."""
UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"
# Where an event comes from; of equal events that with the higher number wins.
UNDONE = 0
"""A stored row that no longer counts: what made it was taken back."""
RETOLD = 1
"""A stored row that counts for those of its values alone that no event brings any more."""
UNTOLD = 2
"""A stored row that stays if no other event of its key is known."""
ERASED = 3
"""A stored row that a truncate event took, and that stays, marked (soft deletes)."""
REMEMBERED = 4
"""A hard delete of an earlier merge, of the table's memory."""
STORED = 5
"""A row of the upsert table."""
NEW = 6
"""A row of the append table that was not merged yet."""
GONE = (UNDONE, RETOLD, UNTOLD, ERASED)
