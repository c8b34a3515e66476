"""Does this Spark server bound what a damaged record may allocate?

Belongs here: asking a running server for what `avro_limits` demands of it.
"""

from pyspark.sql import SparkSession

from tidemark.domain.avro_limits import LIMITS


def missing_limits(spark: SparkSession) -> tuple[str, ...]:
    """The JVM options to add to the server, empty when all limits are set, to whatever value.

    Asks one JVM of the server, the one that runs the query.
    """
    asked = ", ".join(f"java_method('java.lang.System', 'getProperty', '{name}')" for name in LIMITS)
    found = spark.sql(f"SELECT {asked}").first()
    answers = tuple(found) if found else (None,) * len(LIMITS)
    return tuple(
        f"-D{name}={limit}"
        for (name, limit), answer in zip(LIMITS.items(), answers, strict=True)
        if not answer
    )
