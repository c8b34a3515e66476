"""Rule: records of a type that the registry knows never go to the quarantine for what else the topic holds; garbage asks little."""

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import SchemaRegistry
from tidemark.engine.access.registry import Registry
from tidemark.engine.ingest.microbatch import _ids_placed
from tidemark.engine.schema.event_routes import IDS_ROUTED
from tidemark.engine.schema.writers import read_schemas

OTHERS = frozenset(range(500, 550))
"""Schema ids of another record type."""
PAID = json.dumps({"type": "record", "name": "Paid", "fields": [{"name": "id", "type": "long"}]})
UNKNOWN = httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
CONTRACT = Contract.model_validate({"topic": "shop", "table": "shop.placed", "event": "Placed"})


@pytest.mark.parametrize(
    ("beside", "asked"),
    [(range(100, 300), 250), (range(2**20, 2**20 + 50_000), IDS_ROUTED)],
    ids=["deleted for good", "garbage"],
)
def test_ids_of_other_types_are_found_among_many_that_nobody_knows(beside: range, asked: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        head, _, number = request.url.path.rpartition("/")
        if head != "/schemas/ids":
            return UNKNOWN
        ids.append(int(number))
        return httpx.Response(200, json={"schema": PAID}) if ids[-1] in OTHERS else UNKNOWN

    ids = list[int]()
    registry = Registry("main", SchemaRegistry(url="http://registry"))
    registry._client = httpx.Client(transport=httpx.MockTransport(answer))
    lake: Any = SimpleNamespace(registry=lambda _: registry)
    known = SimpleNamespace(known=frozenset[int]())
    plan: Any = SimpleNamespace(contract=CONTRACT, state=None, schemas=known, left_out=frozenset[int]())
    assert _ids_placed(lake, plan, OTHERS.union(beside)) == OTHERS
    assert len(ids) == asked


def test_a_schema_that_has_the_number_of_one_deleted_for_good_is_found_and_garbage_does_not_read_all_again() -> (
    None
):
    """Given a run that knows all versions, when the last is registered anew, then its records are met, garbage or not."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        number = request.url.path.rpartition("/")[2]
        if number == "versions":
            return httpx.Response(200, json=sorted(ids))
        return httpx.Response(200, json={"id": ids[int(number)], "schema": PAID})

    ids, asked = {n: n for n in range(1, 31)}, list[str]()
    registry = Registry("main", SchemaRegistry(url="http://registry"))
    registry._client = httpx.Client(transport=httpx.MockTransport(answer))
    lake: Any = SimpleNamespace(registry=lambda _: registry)
    contract = Contract.model_validate({"topic": "shop", "table": "shop.paid"})
    schemas = read_schemas(lake, contract, None)
    plan: Any = SimpleNamespace(contract=contract, state=None, schemas=schemas, left_out=frozenset[int]())
    garbage = frozenset(range(2**20, 2**20 + 100))
    asked.clear()
    assert _ids_placed(lake, plan, garbage) == frozenset()
    assert len(asked) == 3, "two lists, and the newest version"
    ids[30] = 77
    assert _ids_placed(lake, plan, garbage | {77}) == {77}
