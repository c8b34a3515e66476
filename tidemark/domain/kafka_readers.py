"""What a Spark server should keep of its Kafka readers between queries: nothing.

By default it keeps the consumers of a query, and what they have fetched and not read, for five minutes in case the same
consumer group comes again. Each batch has a group of its own: nobody comes, and the heap of a server that drains a long
backlog fills up with them. They are settings of the whole server (`spark-defaults.conf` or `--conf`).
"""

BRIEF_CONSUMERS = {
    f"spark.kafka.consumer.{cache}.{setting}": "2s"
    for cache in ("cache", "fetchedData.cache")
    for setting in ("timeout", "evictorThreadRunInterval")
}
