"""The marts: dbt models on the lake as assets, one build of them, and the lineage of their columns."""
