"""The work: Spark, Iceberg, Kafka and the schema registry. Knows the domain, never Dagster."""
