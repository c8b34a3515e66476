"""Tidemark turns Kafka topics into governed Apache Iceberg tables."""

__version__ = "0.1.0"
