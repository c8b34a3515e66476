"""What reading and decoding ask of a Spark server and of a session.

Belongs here: whether the server was started with its bounds (`domain/spark_server.py`), and the settings that make
reading and wide tables fast and take names as they are.
"""

from pyspark.sql import SparkSession

from tidemark.domain.spark_server import AVRO_LIMITS, BRIEF_CONSUMERS

SESSION_SETTINGS = {
    "spark.connect.session.planCache.enabled": "false",
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.sql.variable.substitute": "false",
}
"""`planCache`: a plan that is kept between two questions keeps the table state it was made with.

`hugeMethodLimit`: the JVM never compiles a method above 8,000 bytes, and Spark's own limit is 65,535. A table of 50
columns then costs 11 instead of 4 µs per record. With this, Spark splits such a method up.

`useV1SourceList`: Spark's default without `kafka`, whose first reader turns each record into an external row and back.

`variable.substitute`: a column may be named `${a}`, and Spark would put a setting of that name in its place.
"""

NO_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Of a session whose plans see few rows. Java made and compiled for one costs more than its rows (ADR 0038)."""


def missing_limits(spark: SparkSession) -> tuple[str, ...]:
    """The JVM options to add to the server, empty when all limits are set, to whatever value.

    Asks one JVM of the server, the one that runs the query.
    """
    asked = ", ".join(f"java_method('java.lang.System', 'getProperty', '{name}')" for name in AVRO_LIMITS)
    found = spark.sql(f"SELECT {asked}").first()
    answers = tuple(found) if found else (None,) * len(AVRO_LIMITS)
    return tuple(
        f"-D{name}={limit}"
        for (name, limit), answer in zip(AVRO_LIMITS.items(), answers, strict=True)
        if not answer
    )


def missing_settings(spark: SparkSession) -> tuple[str, ...]:
    """The settings to add to the server so that a long backlog does not fill its heap with idle Kafka readers."""
    return tuple(
        f"--conf {key}={time}" for key, time in BRIEF_CONSUMERS.items() if spark.conf.get(key, None) is None
    )
