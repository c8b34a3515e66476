"""The clients: catalog and tables, Spark, Kafka, the registry; and which state their exceptions mean."""
