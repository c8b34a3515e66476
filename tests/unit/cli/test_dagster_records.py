"""What commands ask of Dagster's records."""

from pathlib import Path

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance

from assets.names import OUTCOME
from tidemark.cli.dagster_records import hints, loaded


def test_tables_are_known_as_loaded_also_under_names_that_no_contract_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given results of two tables, when one of them has no contract any more, then both are known, and no third one."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with DagsterInstance.get() as instance:
        for table in ("orders", "former"):
            instance.report_runless_asset_event(
                AssetMaterialization(AssetKey(["shop", table]), metadata={OUTCOME: {}})
            )
    known = loaded(["shop.orders", "shop.new"])
    tables = ["shop.orders", "shop.new", "shop.former", "shop.other"]
    assert [known(table) for table in tables] == [True, False, True, False]


def test_a_home_of_dagster_that_cannot_be_looked_at_gives_no_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a home whose path no system call takes (as one of another user takes none of ours), then nothing is known of it."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / ("x" * 300)))
    assert hints(tmp_path, ["shop.orders"]) == {}
    assert not loaded(["shop.orders"])("shop.orders")
