"""Schemas of writers (Avro, Protobuf, JSON Schema, Debezium) and the columns that they become (docs/types.md)."""
