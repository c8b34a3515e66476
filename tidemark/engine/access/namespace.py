"""Namespaces of the catalog."""

from collections.abc import Callable, Iterator

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError
from pyiceberg.typedef import Identifier

from tidemark.engine.access.outages import says

_DENIED = ("Forbidden", "AccessDenied")
"""Of a REST catalog and Glue: who asks is known, and may not look."""


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Make it unless it is there, or is made meanwhile: a SQL catalog tells that as an error of its database."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):
            raise


def namespaces(catalog: Catalog, outer: Identifier = ()) -> Iterator[Identifier]:
    """All that may be seen, nested ones too."""
    for each in listed(catalog.list_namespaces, outer):
        if len(each) > len(outer) and each[: len(outer)] == outer:  # no catalog goes round in a circle
            yield each
            yield from namespaces(catalog, each)


def listed(ask: Callable[[Identifier], list[Identifier]], namespace: Identifier) -> list[Identifier]:
    """What a namespace holds; nothing when it is gone meanwhile, others' who let nobody look in, or never nested."""
    try:
        return ask(namespace)
    except (NoSuchNamespaceError, BadRequestError, NotImplementedError):
        return []
    except Exception as error:
        if not says(error, _DENIED):
            raise
        return []
