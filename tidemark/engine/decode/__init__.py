"""Kafka records to table rows, exact or quarantined (TYPES.md)."""
