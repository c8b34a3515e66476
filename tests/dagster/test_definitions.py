"""Rules of the definitions: they load without any service, in seconds, and every change to the graph shows."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from confluent_kafka.admin import AdminClient
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from assets.ingest import ingest_assets
from assets.names import table_key
from assets.runs.run_length import run_length_of
from orchestration.definitions import build_defs
from resources.lake import configuration_of
from tidemark.domain.columns.types import LONG, STRING, Field, Struct
from tidemark.domain.config.step_names import step_names
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).parent / "definitions.snapshot.json"
COLUMNS = Struct((Field("id", LONG, "the order", required=True), Field("customer", STRING)))


def test_loading_the_definitions_asks_no_service(where):
    """Given an address that would hear of any call, also of one that C code makes, then loading makes none."""
    with socket.create_server(("127.0.0.1", 0)) as ear:
        address = f"127.0.0.1:{ear.getsockname()[1]}"
        text = re.sub(r"127\.0\.0\.1:\d+", address, where.platform_file.read_text())
        text = text.replace("sqlite:////nowhere/catalog.db", f"postgresql+psycopg2://{address}/lake")
        listening = where.platform_file.with_name("listening.yaml")
        listening.write_text(text)
        dg.Definitions.validate_loadable(build_defs(where=replace(where, platform_file=listening)))
        assert select.select([ear], [], [], 0.5)[0] == []
        asked = AdminClient({"bootstrap.servers": address, "log_level": 0})
        assert select.select([ear], [], [], 10)[0] == [ear], (
            f"{asked} was not heard: this test proves nothing"
        )


def test_the_graph_is_what_the_snapshot_says(defs, where):
    discovery.update(
        where.home, lambda seen: seen.with_columns("shop.orders", COLUMNS, "s3://lake/shop/orders")
    )
    found = json.loads(json.dumps(describe(build_defs(where=where)), sort_keys=True))
    if os.environ.get("TIDEMARK_WRITE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(SNAPSHOT.read_text()), "TIDEMARK_WRITE_SNAPSHOTS=1 writes it anew"


def test_the_code_version_of_a_table_is_the_digest_of_its_contract(defs, where):
    versions = {spec.key: spec.code_version for spec in defs.resolve_all_asset_specs()}
    digests = {table_key(each.table): each.digest for each in configuration_of(where).contracts}
    assert {key: versions[key] for key in digests} == digests


def describe(defs):
    """All asset specs, checks, jobs, sensors and schedules, as plain JSON."""
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    return {
        "assets": {
            spec.key.to_user_string(): {
                "deps": sorted(dep.asset_key.to_user_string() for dep in spec.deps),
                "group": spec.group_name,
                "owners": list(spec.owners),
                "tags": dict(spec.tags),
                "description": spec.description,
                "freshness": str(spec.freshness_policy) if spec.freshness_policy else None,
                "metadata": {key: plain(value) for key, value in spec.metadata.items()},
                "executable": graph.get(spec.key).is_executable,
                "code_version": bool(spec.code_version),
            }
            for spec in defs.resolve_all_asset_specs()
        },
        "checks": {
            key.to_user_string(): graph.get(key).description
            for key in sorted(graph.asset_check_keys, key=str)
        },
        "jobs": {
            job.name: {
                "tags": dict(job.tags),
                "pools": sorted(pool for node in job.all_node_defs for pool in node.pools),
                "nodes": sorted(job.graph.node_dict),
            }
            for job in repository.get_all_jobs()
            if not job.name.startswith("__")
        },
        "sensors": {
            sensor.name: {
                "interval": sensor.minimum_interval_seconds,
                "status": sensor.default_status.value,
                "job": sensor.job_name if sensor.has_jobs else None,
            }
            for sensor in repository.sensor_defs
        },
        "schedules": {
            each.name: [each.cron_schedule, each.description] for each in repository.schedule_defs
        },
    }  # fmt: skip


def plain(value):
    """Metadata without objects."""
    inner = getattr(value, "value", value)
    if isinstance(inner, dg.TableSchema):
        return {c.name: [c.type, c.description, c.constraints.nullable, dict(c.tags)] for c in inner.columns}
    return str(inner)


def test_dagsters_own_freshness_waits_for_the_end_of_a_run(where):
    """Given a lane of many tables, whose results come as its long runs end, then one that got a record within `silence` is not shown as stale in between."""
    configuration = configuration_of(where)
    lane, orders = configuration.platform.lanes["default"], configuration.contract("shop.orders")
    many = [orders.model_copy(update={"table": f"shop.t{n}"}) for n in range(400)]
    made = ingest_assets("default", lane, many, "lake", {})
    (allowed,) = {each.freshness_policy.fail_window.to_timedelta() for each in made.specs}
    run = run_length_of(lane, many)
    assert run > timedelta(minutes=50)
    assert allowed == orders.freshness.silence + orders.target_lag + run


def test_secrets_of_the_platform_file_are_not_in_the_definitions(where):
    shown = serialize_value(RepositorySnap.from_def(build_defs(where=where).get_repository_def()))
    assert "shop" in shown
    assert "very-secret" not in shown


def test_both_ways_to_start_dagster_load_the_same_module():
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    modules = [entry["python_module"]["module_name"] for entry in workspace["load_from"]]
    assert modules == [project["code_location_target_module"]]


def test_a_wrong_contract_is_refused_by_file_and_line(where):
    (where.contracts_dir / "bad.yaml").write_text("topic: bad\ntarget_leg: 1m\n")
    fresh = Places(where.platform_file, where.contracts_dir, where.home / "other")
    with pytest.raises(Exception, match=r"bad\.yaml:2: .*target_leg.*target_lag"):
        build_defs(where=fresh)


def test_every_name_in_a_shared_step_is_one_that_the_contracts_are_checked_for(where):
    (where.contracts_dir / "late.yaml").write_text(
        "topic: l\ntable: shop.late\nevent_time: at\nupsert: [id]\n"
    )
    ops = build_defs(where=where).resolve_job_def("__ASSET_JOB").graph.node_defs
    found = {op.name: set(op.output_dict) for op in ops}
    names = [each for contract in configuration_of(where).contracts for each in step_names(contract)]

    def of(step, prefix=""):
        return {prefix + each.name for each in names if each.step == step}

    assert of("ingest default") == found["ingest_default"]
    assert of("ingest slow") == found["ingest_slow"]
    assert of("upsert tables") == found["merge_default"]
    assert of("tables", "schema__") == found["evolve_schemas"]


def test_no_contracts_are_no_error(tmp_path):
    (tmp_path / "none").mkdir()
    defs = build_defs(where=Places(None, tmp_path / "none", tmp_path / "home"))
    dg.Definitions.validate_loadable(defs)
    graph = defs.get_repository_def().asset_graph
    assert not graph.get_all_asset_keys()


def test_three_hundred_contracts_load_in_seconds(tmp_path):
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for n in range(300):
        (contracts / f"c{n}.yaml").write_text(f"topic: t{n}\ntable: ns{n % 7}.t{n}\n")
    began = time.process_time()
    build_defs(where=Places(None, contracts, tmp_path / "home")).get_repository_def().load_all_definitions()
    assert time.process_time() - began < 10


def test_loading_imports_no_client_of_kafka_iceberg_dbt_or_data_frames(where):
    heavy = {"pandas", "pyarrow", "pyiceberg", "confluent_kafka", "pandera", "dbt", "sqlglot"}
    assert not heavy & set(
        printed(where, "import sys, orchestration.definitions\nprint(*sys.modules)").split()
    )


def test_a_run_looks_for_no_garbage_as_it_ends(where):
    frozen = "import atexit, gc\natexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
    assert printed(where, f"{frozen}import orchestration.definitions") == "True\n"


def printed(where, program):
    """What Python prints that runs `program` over these places."""
    environ = {
        **os.environ,
        "TIDEMARK_CONFIG": str(where.platform_file),
        "TIDEMARK_CONTRACTS": str(where.contracts_dir),
        "TIDEMARK_HOME": str(where.home),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout
