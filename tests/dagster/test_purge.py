"""Rule: what Dagster keeps of runs that ended long ago can be deleted, but for what anybody still asks it for."""

from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterEvent, DagsterInstance, DagsterRunStatus
from pydantic import ValidationError

import assets.runs.lane
from assets.names import FRESHNESS, OUTCOME, table_key
from assets.runs.last_runs import last_runs
from assets.runs.loaded import loaded_before
from jobs import purge
from orchestration.instance import prepare_dagster_home

ORDERS = table_key("shop.orders")


@pytest.fixture
def home(request, tmp_path, monkeypatch):
    """A DAGSTER_HOME with our SQLite, or with Dagster's own."""
    made = prepare_dagster_home(tmp_path / "home")
    monkeypatch.setenv("DAGSTER_HOME", str(made))
    if getattr(request, "param", "ours") == "dagster's":
        (made / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    return made


@pytest.fixture
def instance(home):
    with DagsterInstance.from_config(str(home)) as made:
        yield made


@pytest.fixture
def ingested(defs, instance, lake, monkeypatch):
    """A run that told a result of a table."""

    def done(_context, *_args, **_how):
        yield dg.MaterializeResult(asset_key=ORDERS, metadata={OUTCOME: {}})

    monkeypatch.setattr(assets.runs.lane, "run_tables", done)
    job = defs.resolve_job_def("ingest")
    return lambda: (
        job.execute_in_process(instance=instance, asset_selection=[ORDERS], raise_on_error=False).run_id
    )


@pytest.fixture
def ended(defs, instance):
    """A run of a verb, which told of a check if one is named."""
    config = {"ops": {"pause_table": {"config": {"table": "shop.orders"}}}}

    def make(status=DagsterRunStatus.SUCCESS, check=None):
        job = defs.resolve_job_def("pause")
        run = instance.create_run_for_job(job, run_config=config, status=status, tags=job.tags)
        if check:
            told = dg.AssetCheckEvaluation(asset_key=ORDERS, check_name=check, passed=True)
            event = DagsterEvent("ASSET_CHECK_EVALUATION", "pause", event_specific_data=told)
            instance.report_dagster_event(event, run.run_id)
        return run.run_id

    return make


@pytest.fixture
def purged(defs, instance, monkeypatch):
    """The job, so many days from now."""

    def make(later, **config):
        class Later(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(days=later)

        monkeypatch.setattr(purge, "datetime", Later)
        config = {"ops": {"delete_runs": {"config": config}}}
        done = defs.resolve_job_def("purge_runs").execute_in_process(instance=instance, run_config=config)
        (metadata,) = [e.step_output_data.metadata for e in done.all_events if e.is_successful_output]
        return {name: value.value for name, value in metadata.items()}

    return make


def files_of(home: Path, run_id):
    return sorted(each.name for each in home.rglob(f"{run_id}*"))


@dg.job
def of_somebody_else():
    pass


@pytest.mark.parametrize("home", ["ours", "dagster's"], indirect=True)
def test_runs_that_ended_long_ago_are_deleted_with_their_files_but_for_those_of_newest_results(
    instance, home, ingested, ended, purged
):
    """Given runs of a table, of a verb and of another project, one under way and one deleted by hand, when they are old, then what a table or a check was told last stays."""
    first, newest = ingested(), ingested()
    before, checked = ended(check=FRESHNESS), ended(check=FRESHNESS)
    failed, begun = ended(DagsterRunStatus.FAILURE), ended(DagsterRunStatus.STARTED)
    other = of_somebody_else.execute_in_process(instance=instance).run_id
    by_hand = ended(check="schema_drift")
    instance.delete_run(by_hand)
    instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS))  # as a person may, in the UI
    assert files_of(home, first)
    assert f"{by_hand}.db" in files_of(home, by_hand)

    assert purged(89) == {"runs": 0, "files": 1}
    assert purged(91) == {"runs": 3, "files": 3}
    assert [instance.has_run(each) for each in (first, before, failed, by_hand)] == [False] * 4
    assert files_of(home, first) == []
    assert [instance.has_run(each) for each in (newest, checked, begun, other)] == [True] * 4
    assert files_of(home, newest)
    assert loaded_before(instance, ["shop.orders"]) == {"shop.orders"}
    assert last_runs(instance, ["shop.orders"])["shop.orders"].stopped is None


def test_so_many_are_deleted_at_once_the_oldest_first(instance, ended, purged):
    runs = [ended() for _ in range(4)]
    assert purged(8, days=7, at_most=2)["runs"] == 2
    assert [instance.has_run(each) for each in runs] == [False, False, True, True]


def test_what_ended_within_a_week_is_kept_whatever_is_asked():
    with pytest.raises(ValidationError, match="greater than or equal to 7"):
        purge.Purge(days=6)
