"""Kafka records to table rows, exact or quarantined (docs/types.md)."""
