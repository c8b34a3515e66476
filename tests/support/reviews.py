"""Reviews of a table as `tidemark report` collects them, for tests of the page that is made of them."""

from datetime import UTC, datetime, timedelta

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import EmbeddedPlatform, stack_connections
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.engine.look.status import Status
from tidemark.review.collect import Review
from tidemark.review.promises import promises
from tidemark.review.receipts import Receipt, fates_of, recovery_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONTRACT = Contract(
    topic="orders",
    table="shop.orders",
    description="Orders <b>as</b> published",
    owners={"data": "team:orders"},
    approvers=["team:lake"],
    columns={"email": {"tags": ["pii"], "allow": ["marts.customers"]}},
    freshness={"warn": "2m", "fail": "10m"},
    retention={"append": "30d"},
)


def receipt(number, *, delay=3, quarantined=0):
    at = NOON + timedelta(minutes=number)
    counts = {0: Counts(10 + quarantined, 10, quarantined)}
    whole = {0: Counts((10 + quarantined) * (number + 1), 10 * (number + 1), quarantined * (number + 1))}
    ledger = Ledger(
        cluster_id="c", topic_id="t", topic="orders", start={0: 5}, next={0: 5 + whole[0].read + 2},
        counts=counts, totals=whole, max_timestamp=at - timedelta(seconds=delay),
    )  # fmt: skip
    return Receipt(number, at, ledger)


def review(contract=CONTRACT, receipts=None, state="fresh", **said):
    receipts = [receipt(n) for n in range(5)] if receipts is None else receipts
    status = Status(
        contract.table, contract.topic, state, 7, 1.5, NOON, NOON, None, NOON, 1, {0: 5}, {0: 12}, 3, 0, 50, 2,
        "tidemark run shop.orders",
    )  # fmt: skip
    given = {
        "columns": [
            {
                "name": "email",
                "type": "string",
                "required": False,
                "description": "",
                "tags": ["pii"],
                "becomes": ["marts.customers.email"],
                "allow": [],
            }
        ],
        "quarantine": [],
        "snapshots": {},
        "changes": [],
        "operations": [],
        "marts": {"marts.customers": ["shop.orders"]},
        **said,
    }
    return Review(
        contract=contract,
        status=status,
        receipts=receipts,
        fates=fates_of(receipts),
        recovery=recovery_of(receipts[-1], receipts[0], kafka_asked=True) if receipts else None,
        promises=promises(contract, EmbeddedPlatform.model_validate(stack_connections({}))),
        **given,
    )
