"""A lake with a catalog and files of its own, of which no service runs: what looks at the catalog alone needs none."""

from pathlib import Path

from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load

ORDERS = "topic: orders\ntable: shop.orders\nvalue: {format: json, fields: {id: bigint}}\n"


def lake_in(home: Path, contract: str) -> Lake:
    """With one contract and the namespace `shop`."""
    (home / "contracts").mkdir()
    (home / "contracts" / "orders.yaml").write_text(contract)
    platform = home / "platform.yaml"
    platform.write_text(
        "kafka: {main: {bootstrap.servers: '127.0.0.1:1'}}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
        f"catalog: {{type: sql, uri: 'sqlite:///{home}/c.db', warehouse: 'file://{home}'}}\n"
    )
    made = Lake(load(platform, home / "contracts", environ={}, home=home))
    made.catalog.create_namespace("shop")
    return made
