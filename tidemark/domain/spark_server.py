"""What a Spark server has to be started with, whoever starts it: bounds of Avro's decoder and of its Kafka readers.

Belongs here: what holds for the whole server. What a session sets is in `engine/access/spark_limits.py`.
"""

MAX_VALUE_BYTES = 64 << 20
"""Of one string or bytes value; Kafka's own default for a whole record is 1 MB."""

MAX_ITEMS = 1 << 22
"""Of one list or map, or of all of a kind in one value; 4 million."""

AVRO_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.string.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.collectionItems.maxLength": MAX_ITEMS,
}
"""The bounds that Avro's decoder needs in the JVM, so that a damaged length is a bad record and not the end.

Without them a value of nine bytes that claims a text or a list of two thousand million makes the decoder allocate
it: the executor dies of OutOfMemoryError, which PERMISSIVE mode does not catch, and the batch with it. They are read
once, when Avro's classes are loaded, so they must be on the command line of the driver and of every executor
(spark.driver.extraJavaOptions, spark.executor.extraJavaOptions).
"""

JVM_OPTIONS = tuple(f"-D{name}={value}" for name, value in AVRO_LIMITS.items())

BRIEF_CONSUMERS = {
    f"spark.kafka.consumer.{cache}.{setting}": "2s"
    for cache in ("cache", "fetchedData.cache")
    for setting in ("timeout", "evictorThreadRunInterval")
}
"""What it should keep of its Kafka readers between queries: nothing. For `spark-defaults.conf` or `--conf`.

By default it keeps the consumers of a query, and what they have fetched and not read, for five minutes in case the
same consumer group comes again. Each batch has a group of its own: nobody comes, and the heap of a server that drains a
long backlog fills up with them.
"""
