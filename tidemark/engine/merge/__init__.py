"""One merge of an append table's new rows into its upsert table. `merge.py` reads from top to bottom."""
