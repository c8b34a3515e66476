"""The bounds that Avro's decoder needs in the JVM, so that a damaged length is a bad record and not the end.

Belongs here: the system properties of Avro for Java. Without them a value of nine bytes that claims a text or
a list of two thousand million makes the decoder allocate it: the executor dies of OutOfMemoryError, which
PERMISSIVE mode does not catch, and the batch with it. They are read once, when Avro's classes are loaded, so
they must be on the command line of the driver and of every executor (spark.driver.extraJavaOptions,
spark.executor.extraJavaOptions).
"""

MAX_VALUE_BYTES = 64 << 20
"""Of one string or bytes value; Kafka's own default for a whole record is 1 MB."""

MAX_ITEMS = 1 << 22
"""Of one list or map, or of all of a kind in one value; 4 million."""

LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.string.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.collectionItems.maxLength": MAX_ITEMS,
}

JVM_OPTIONS = tuple(f"-D{name}={value}" for name, value in LIMITS.items())
