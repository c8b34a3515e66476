"""Many first loads of one new namespace at once, on a real catalog."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.engine.access.namespace import make_namespace

MAKERS, ROUNDS = 6, 20


def test_of_many_that_make_a_namespace_at_once_none_fails(tmp_path):
    catalogs = [
        SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
        for _ in range(MAKERS)
    ]
    together = Barrier(MAKERS, timeout=10)

    def make(catalog: SqlCatalog) -> None:
        for number in range(ROUNDS):
            together.wait()
            make_namespace(catalog, f"shop{number}")

    with ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(make, catalogs))
    assert len(catalogs[0].list_namespaces()) == ROUNDS


def test_what_keeps_a_namespace_from_being_made_is_told(tmp_path):
    with pytest.raises(Exception, match="no such table"):
        make_namespace(
            SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", init_catalog_tables="false"), "shop"
        )
