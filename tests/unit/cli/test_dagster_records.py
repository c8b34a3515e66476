"""What commands ask of Dagster's records."""

from pathlib import Path

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance

from assets.names import OUTCOME
from tidemark.cli.dagster_records import loaded


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
