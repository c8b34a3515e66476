"""Rule: records of a type that the registry knows never go to the quarantine for what else the topic holds; garbage asks little."""

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import SchemaRegistry
from tidemark.engine.access.registry import Registry
from tidemark.engine.ingest.microbatch import _found
from tidemark.engine.schema.event_routes import IDS_ROUTED

OTHERS = frozenset(range(500, 550))
"""Schema ids of another record type."""
PAID = json.dumps({"type": "record", "name": "Paid", "fields": [{"name": "id", "type": "long"}]})
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
            return httpx.Response(404)
        ids.append(int(number))
        return httpx.Response(200, json={"schema": PAID}) if ids[-1] in OTHERS else httpx.Response(404)

    ids = list[int]()
    registry = Registry("main", SchemaRegistry(url="http://registry"))
    registry._client = httpx.Client(transport=httpx.MockTransport(answer))
    lake: Any = SimpleNamespace(registry=lambda _: registry)
    known = SimpleNamespace(known=frozenset[int]())
    plan: Any = SimpleNamespace(contract=CONTRACT, schemas=known, left_out=frozenset[int]())
    assert _found(lake, plan, OTHERS.union(beside)) == OTHERS
    assert len(ids) == asked
