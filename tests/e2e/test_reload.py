"""Rule: who reloads the definitions waits for nothing: the sensor, the daemon and its runs know them at once."""

import httpx
import pytest
from pyiceberg.exceptions import NoSuchTableError
from waiting import until

from orchestration.instance import prepare_dagster_home
from tidemark.cli.dagster_services import DagsterServices
from tidemark.engine.config.configuration import Places

RELOAD = 'mutation {reloadRepositoryLocation(repositoryLocationName: "tidemark") {__typename}}'
SOON = 300
"""Seconds; our daemon by itself would read the definitions again after an hour."""


@pytest.fixture
def dagster(lakehouse, tmp_path, monkeypatch):
    """Code server, webserver and daemon over the contracts of this test."""
    monkeypatch.setenv("TIDEMARK_HOME", str(lakehouse.home))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(lakehouse.contracts))
    monkeypatch.setenv("DAGSTER_HOME", str(prepare_dagster_home(tmp_path)))
    services = DagsterServices(Places(None, lakehouse.contracts, lakehouse.home))
    try:
        yield services
    finally:
        services.down()


def test_a_contract_is_loaded_by_the_sensor_as_soon_as_the_definitions_are_reloaded(lakehouse, dagster):
    """Given Dagster at work, when someone adds a contract and reloads, then the sensor's run loads its table within seconds."""
    known = lakehouse.cluster.topic("known", 1)
    known.send(range(10))
    first = lakehouse.table(known)
    dagster.up()
    until(lambda: loaded(first) == list(range(10)), "the table that was there from the start", 120)
    added = lakehouse.cluster.topic("added", 1)
    added.send(range(20))
    second = lakehouse.table(added)
    answer = httpx.post(f"{dagster.url}/graphql", json={"query": RELOAD}, timeout=60, trust_env=False).json()
    assert answer["data"]["reloadRepositoryLocation"]["__typename"] == "WorkspaceLocationEntry"
    until(lambda: loaded(second) == list(range(20)), "the table of the new contract", SOON)


def loaded(table):
    """Its ids; None before the first load."""
    try:
        return table.ids()
    except NoSuchTableError:
        return None
