"""Namespaces of the catalog."""

from pyiceberg.catalog import Catalog


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Make it unless it is there, or is made meanwhile: a SQL catalog tells that as an error of its database."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):
            raise
