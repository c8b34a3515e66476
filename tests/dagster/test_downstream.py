"""Rule: the automation conditions that the guide gives to assets downstream fire, however busy or quiet a lane is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.names import table_key

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
ORDERS, CLICKS, MINE = table_key("shop.orders"), table_key("web.clicks"), dg.AssetKey("mine")
ON_THE_HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def conditions():
    """Those that the guide names, by name."""
    section = GUIDE.read_text().split("## Your own assets downstream")[1]
    found = {"dg": dg}
    exec(section.split("```python\n")[1].split("```")[0], found)  # noqa: S102 - what people copy
    return found


@pytest.fixture
def asked(defs, instance):
    """Whether an asset on two tables is asked for at these minutes before or after the hour, the tables being loaded."""
    kept = {}

    def look(condition, *minutes):
        spec = dg.AssetSpec(MINE, deps=[ORDERS, CLICKS], automation_condition=condition)

        @dg.multi_asset(specs=[spec])
        def mine():
            yield dg.MaterializeResult(asset_key=MINE)

        both = dg.Definitions.merge(defs, dg.Definitions(assets=[mine]))
        for minute in minutes:
            found = dg.evaluate_automation_conditions(
                defs=both,
                instance=instance,
                cursor=kept.get("cursor"),
                asset_selection=dg.AssetSelection.assets(MINE),
                evaluation_time=ON_THE_HOUR + timedelta(minutes=minute),
            )
            kept["cursor"] = found.cursor
        return bool(found.get_num_requested(MINE))

    for key in (ORDERS, CLICKS, MINE):
        instance.report_runless_asset_event(dg.AssetMaterialization(key))
    return look


@pytest.mark.parametrize("ours", [False, True])
def test_at_once_fires_while_a_run_lingers(conditions, asked, defs, instance, ours):
    """Given tables that a run keeps in progress, when one of them has a new result, then `eager()` waits, the guide's does not."""
    condition = conditions["at_once"] if ours else dg.AutomationCondition.eager()
    assert asked(condition, 1) is False
    instance.create_run_for_job(
        defs.resolve_job_def("ingest"), asset_selection={ORDERS, CLICKS}, status=dg.DagsterRunStatus.STARTED
    )
    instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS))
    assert asked(condition, 2) is ours


@pytest.mark.parametrize("ours", [False, True])
def test_hourly_fires_though_one_table_is_quiet_and_only_then(conditions, asked, defs, instance, ours):
    """Given two tables of which one moves, when the hour has passed, then `on_cron()` waits for the other, the guide's does not; nothing moves, nothing is made."""
    condition = conditions["hourly"] if ours else dg.AutomationCondition.on_cron("0 * * * *")
    assert asked(condition, -20) is False
    instance.create_run_for_job(
        defs.resolve_job_def("ingest"), asset_selection={ORDERS, CLICKS}, status=dg.DagsterRunStatus.STARTED
    )
    instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS))
    assert asked(condition, -10) is False
    assert asked(condition, 1) is ours
    assert asked(condition, 2, 61) is False
