"""The folder of a name that a table has left behind: catalogs rename a table and leave its files where they are.

Two tables in one folder take each other's files for orphans.
"""

from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table

from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load

GIVEN_UP = "tidemark.renamed."
"""Prefix of namespace properties: which table has left a name behind, and its files in the folder of that name."""


def give_up(catalog: Catalog, name: str, now: str) -> None:
    """Note at the namespace that the files of `now` may lie where a table `name` would put its own.

    A catalog that changes no properties of namespaces goes without: S3 Tables, whose tables share no folder.
    """
    namespace, _, short = name.partition(".")
    with suppress(NotImplementedError):
        catalog.update_namespace_properties(namespace, updates={f"{GIVEN_UP}{short}": now})


def taken_folder(lake: Lake, table: str) -> str | None:
    """The table whose files lie in the folder that a new `table` would get, or None; by all names that it had since."""
    passed: set[str] = set()
    now = now_named(lake.catalog, table)
    while now is not None and now not in passed:
        found = load(lake.catalog, now)
        if found is not None and not _at_home(found):
            return now
        passed.add(now)
        now = now_named(lake.catalog, now)
    return None


def folder_fault(lake: Lake, table: str) -> Stopped | None:
    """`misconfigured` of a new `table` that would get the folder that another table's files lie in."""
    other = taken_folder(lake, table)
    if other is None:
        return None
    return Stopped(
        "misconfigured",
        table,
        f"{other} had this name before, and its files lie in the folder of it. Name another table.",
    )


def now_named(catalog: Catalog, table: str) -> str | None:
    """The table that has left this name behind, by the name that it was given then."""
    namespace, _, short = table.partition(".")
    try:
        return catalog.load_namespace_properties(namespace).get(f"{GIVEN_UP}{short}")
    except NoSuchNamespaceError:
        return None


def _at_home(table: Table) -> bool:
    """It lies in the folder of its own name: it was renamed back, or made anew."""
    return table.location().rstrip("/").endswith("/".join(("", *table.name())))
