"""What Prometheus sees: the figures of status, by table; what is unknown is absent, never zero."""

import socket
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidemark.cli import metrics
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


def test_upsert_tables_have_figures_too(monkeypatch):
    """Given a contract with an upsert table, when Prometheus asks, then both tables answer, once for two scrapers."""
    asked = []
    current = replace(FRESH, table="shop.orders_current")
    contract = SimpleNamespace(table="shop.orders")
    monkeypatch.setattr(metrics, "chosen_both", lambda *_: ([contract], {current.table: current}))
    monkeypatch.setattr(metrics, "statuses_of", lambda *_, **how: asked.append(how) or [FRESH])
    monkeypatch.setattr(metrics, "upsert_statuses", lambda _, upserts, *__: list(upserts))
    figures = metrics.TableFigures.__new__(metrics.TableFigures)
    figures._lake, figures._tables, figures._at = SimpleNamespace(configuration=None), (), float("-inf")
    registry = CollectorRegistry()
    registry.register(figures)
    shown = generate_latest(registry).decode()
    assert 'tidemark_rows{table="shop.orders_current",topic="orders"} 50.0' in shown
    assert 'tidemark_state{state="fresh",table="shop.orders_current"} 1.0' in shown
    assert asked == [{"ask_dagster": True}]


def test_what_could_not_be_asked_is_absent_and_the_state_says_why(scraped):
    assert 'tidemark_lag_records{table="a.b"' not in scraped
    assert 'tidemark_state{state="kafka_down",table="a.b"} 1.0' in scraped
    assert 'tidemark_state{state="fresh",table="a.b"} 0.0' in scraped


def test_a_port_that_is_taken_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(metrics.TableFigures, "__init__", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Refused) as refused:
        metrics.metrics([], taken.getsockname()[1], once=False)
    assert refused.value.next_step == "--port names another"
