"""The work: Spark, Iceberg, Kafka and the schema registry. Knows the domain, never Dagster.

Beside the layers, for them: `faults`, `stopwatch`, `alone`, `whole_file`, `marts` (where the dbt project lies). For the
shell and the command line alone: `alive`, `login`, `openlineage`.
"""
