"""The embedded local stack: Kafka, schema registry and Spark Connect as processes of this machine."""
