"""What Prometheus sees: the figures of status, by table; what is unknown is absent, never zero."""

import socket
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidemark.cli import metrics
from tidemark.cli.choice import chosen_both
from tidemark.domain.errors import Refused
from tidemark.engine.look.status import Status

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FRESH = Status("shop.orders", "orders", "fresh", 0, 0.0, NOON, NOON, None, NOON, 1, {}, {}, 3, 0, 50, 2, "")
DOWN = Status(
    "a.b", "b", "kafka_down", None, None, None, None, None, None, None, {}, {}, None, None, None, None, ""
)


@pytest.fixture
def scraped(monkeypatch):
    figures = metrics.TableFigures.__new__(metrics.TableFigures)
    monkeypatch.setattr(figures, "_statuses", lambda: [FRESH, DOWN])
    registry = CollectorRegistry()
    registry.register(figures)
    return generate_latest(registry).decode()


def test_each_figure_of_status_has_a_gauge(scraped):
    assert 'tidemark_rows{table="shop.orders",topic="orders"} 50.0' in scraped
    assert 'tidemark_last_commit_timestamp_seconds{table="shop.orders",topic="orders"} 1.7723' in scraped


@pytest.fixture
def contracts(tmp_path, monkeypatch):
    """The folder of an installation with one contract."""
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "orders.yaml").write_text("topic: orders\ntable: shop.orders\nupsert: [id]\n")
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(folder))
    return folder


def test_all_tables_that_are_on_disk_now_have_figures(contracts, monkeypatch):
    """Given contracts that are added, and one that is broken, while Prometheus asks, then each table is there from the next look on; two scrapers ask once."""
    asked = []

    def statuses(lake, tables):
        found, upserts = chosen_both(lake.configuration, tables)
        asked.append([*(each.table for each in found), *upserts])
        return [replace(FRESH, table=table) for table in asked[-1]]

    def scraped():
        figures._at = float("-inf")
        return generate_latest(registry).decode()

    monkeypatch.setattr(metrics, "statuses", statuses)
    figures, registry = metrics.TableFigures([]), CollectorRegistry()
    registry.register(figures)
    asked.clear()
    assert 'tidemark_rows{table="shop.orders_current",topic="orders"} 50.0' in scraped()
    generate_latest(registry)
    (contracts / "web.yaml").write_text("topic: clicks\ntable: web.clicks\n")
    assert 'tidemark_state{state="fresh",table="web.clicks"} 1.0' in scraped()
    (contracts / "broken.yaml").write_text("topik: x\n")
    scraped()
    first, every = (
        ["shop.orders", "shop.orders_current"],
        ["shop.orders", "web.clicks", "shop.orders_current"],
    )
    assert asked == [first, every, every]


def test_a_mistyped_table_is_refused_before_anything_is_served(contracts):
    with pytest.raises(Refused) as refused:
        metrics.metrics(["shop.ordres"], 0, once=False)
    assert refused.value.next_step == "did you mean shop.orders?"


def test_what_could_not_be_asked_is_absent_and_the_state_says_why(scraped):
    assert 'tidemark_lag_records{table="a.b"' not in scraped
    assert 'tidemark_state{state="kafka_down",table="a.b"} 1.0' in scraped
    assert 'tidemark_state{state="fresh",table="a.b"} 0.0' in scraped


def test_a_port_that_is_taken_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(metrics.TableFigures, "__init__", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Refused) as refused:
        metrics.metrics([], taken.getsockname()[1], once=False)
    assert refused.value.next_step == "--port names another"
