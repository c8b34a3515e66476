"""Functions that travel to Spark's executors by value, whose Python need not have this package."""

from pyspark import cloudpickle

from tidemark.domain.formats import json_nodes, protobuf_nodes
from tidemark.engine.decode import shipped


def shippable() -> None:
    """From now on this process pickles the functions of `shipped`, and the nodes they read by, by value."""
    for module in (shipped, json_nodes, protobuf_nodes):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
