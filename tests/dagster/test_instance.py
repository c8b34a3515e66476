"""Rules of the instance: Dagster accepts our settings, a lane has one run at a time, and your settings stay yours."""

import dagster as dg
from dagster._core.instance.config import PoolGranularity

from orchestration.instance import prepare_dagster_home


def test_dagster_accepts_the_settings(tmp_path):
    home = prepare_dagster_home(tmp_path)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert (pools.default_pool_limit, pools.pool_granularity) == (1, PoolGranularity.RUN)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.get_settings("sensors")["use_threads"]
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled


def test_settings_that_are_there_are_left_alone(tmp_path):
    folder = prepare_dagster_home(tmp_path)
    (folder / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    assert prepare_dagster_home(tmp_path) == folder
    assert (folder / "dagster.yaml").read_text() == "telemetry: {enabled: true}\n"
