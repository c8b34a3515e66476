"""The folder of a name that a table has left behind: catalogs rename a table and leave its files where they are.

Two tables in one folder take each other's files for orphans.
"""

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table

from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load

GIVEN_UP = "tidemark.renamed."
"""Prefix of namespace properties: which table has left a name behind, and its files in the folder of that name."""


def give_up(catalog: Catalog, name: str, now: str) -> None:
    """Note at the namespace that the files of `now`, still called `name`, may lie where a new `name` would put its own.

    A catalog that changes no properties of namespaces goes without where tables share no folder, as in S3 Tables.

    Raises:
        Stopped: `misconfigured`: there they may share one.
    """
    namespace, _, short = name.partition(".")
    try:
        catalog.update_namespace_properties(namespace, updates={f"{GIVEN_UP}{short}": now})
    except NotImplementedError as error:
        if at_home(catalog.load_table(name)):
            raise Stopped(
                "misconfigured",
                name,
                "This catalog keeps no properties of namespaces, so nothing would say whose files lie in the folder of "
                "a name that is given up. Name the table as before.",
            ) from error


def taken_folder(lake: Lake, table: str) -> str | None:
    """The table whose files lie in the folder that a new `table` would get, or None; by all names that it had since."""
    passed: set[str] = set()
    now = now_named(lake.catalog, table)
    while now is not None and now not in passed:
        found = load(lake.catalog, now)
        if found is not None and not at_home(found):
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


def at_home(table: Table) -> bool:
    """It lies in the folder of its own name: it was renamed back, or made anew."""
    return table.location().rstrip("/").endswith("/".join(("", *table.name())))
