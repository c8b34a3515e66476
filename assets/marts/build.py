"""One build of some marts: dbt over the same Spark Connect server, its events as results and checks."""

import json
import os
import re
import shutil
import sys
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DbtCliInvocation, DbtCliResource
from dagster_dbt.compat import DBT_PYTHON_VERSION
from dagster_dbt.core.dbt_cli_invocation import PARTIAL_PARSE_FILE_NAME

from assets.checks.corrections import corrected
from assets.checks.results import StepOutput, as_outputs, as_result
from assets.column_lineage import column_metadata
from assets.marts.dbt_session import FOLDER, open_dbt_session
from assets.marts.origins import Built, remember
from assets.marts.translator import MartTranslator, among_their_parents
from assets.names import ALLOWED, CORRECTED, table_key, table_of
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import Refused, TidemarkError
from tidemark.domain.lineage.column_lineage import exposures, lineage_of, untraced
from tidemark.domain.lineage.marts import Mart, in_turns
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.spark import default_session
from tidemark.engine.config import discovery
from tidemark.engine.look.corrections import MartStanding, note, standings
from tidemark.engine.look.made_anew import is_made_anew, snapshots_of
from tidemark.engine.marts import DESCRIBE, digest_of, project_fault, project_folder

_TRACEABLE = (
    "in the mart's SQL give each expression a name (`as …`), name tables by source() and ref() alone and their columns "
    "as they are, write out `*` within functions, join instead of reading tables in a lateral subquery or columns from "
    "outside of a nested select, build on no ephemeral model and write with no hook; then build once with full_refresh"
)
_PARSED = re.compile(r"[0-9a-f]{24}(\.new)?")
"""A folder of `_parsed_folder`, or one that a parse which was killed has left."""
_OURS = frozenset({"dagster/column_schema", "dagster/column_lineage"})


def build(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    marts: Mapping[str, Mart],
    contracts: Sequence[Contract],
    *,
    full_refresh: bool = False,
) -> Iterator[StepOutput]:
    """`dbt build` of the selected marts with their tests; with `full_refresh` anew from all rows.

    Raises:
        Outage: `spark_down`, or the catalog or its store before anything was built.
        Stopped: `misconfigured`, a server that must not be used.
        Refused: the project is not the one from which the marts' definitions were made.
        dagster_dbt.DagsterDbtCliRuntimeError: a model or a blocking test failed; what was built before is reported.
    """
    selected = [marts[table] for table in sorted(table_of(key) for key in context.selected_asset_keys)]
    if not selected:
        return
    home = resource.places.home
    with resource.open() as lake:
        before = standings(lake, selected, marts, contracts, built=True, full_refresh=full_refresh)
        chosen = _buildable(context, selected, before)
        if not chosen:
            return
        older = {each.table: snapshots_of(lake, each.table) for each in chosen}
        with _dbt(context, resource, lake) as dbt:
            flagged = {mart.table for mart in chosen if before[mart.table].anew and dbt.needs_flag(mart)}
            for turn in in_turns(chosen, () if full_refresh else flagged, marts):
                anew = full_refresh or turn[0].table in flagged
                invocation = dbt.run(
                    [
                        "build",
                        "--indirect-selection",
                        "buildable",  # a test of a mart reads its sources too, which are never selected
                        "--select",
                        " ".join(map(dbt.name, turn)),
                        *(["--full-refresh"] if anew else _made_anew(turn, before)),
                    ]
                )
                for event in invocation.stream().fetch_column_metadata():
                    if isinstance(event, dg.AssetMaterialization):
                        table = table_of(event.asset_key)
                        built = Built(
                            sql=_compiled(invocation, marts[table]),
                            anew=is_made_anew(lake, table, older[table]),
                            hooks=dbt.has_hooks(marts[table]),
                        )
                        yield from _built(event, built, home, contracts, marts)
                        yield _followed(context, lake, table, before[table])
                    elif isinstance(event, dg.AssetCheckEvaluation):
                        yield from as_outputs(context, [event])


def judge(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    marts: Mapping[str, Mart],
    contracts: Sequence[Contract],
) -> Iterator[dg.AssetCheckResult]:
    """The selected checks of marts that the run does not build: by a look, those of the project by `dbt test`.

    Raises:
        Outage, Stopped, Refused, dagster_dbt.DagsterDbtCliRuntimeError: as `build`.
    """
    alone = defaultdict[str, list[str]](list)
    for key in sorted(context.selected_asset_check_keys, key=str):
        if key.asset_key not in context.selected_asset_keys:
            alone[key.name].append(table_of(key.asset_key))
    if not alone:
        return
    columns = discovery.read(resource.places.home).described()
    for table in alone.pop(ALLOWED, ()):
        yield _allowed(table, columns, contracts, marts)
    with resource.open() as lake:
        followed = [marts[table] for table in alone.pop(CORRECTED, ())]
        for table, standing in standings(lake, followed, marts, contracts).items():
            yield as_result(corrected(table, standing.left))
        if alone:
            with _dbt(context, resource, lake) as dbt:
                tests = [f"{name},{dbt.name(marts[t])}" for name, tables in alone.items() for t in tables]
                for event in dbt.run(["test", "--select", " ".join(tests)]).stream():
                    if isinstance(event, dg.AssetCheckEvaluation):
                        yield from as_outputs(context, [event])


class _Cli(DbtCliResource):  # type: ignore[misc]
    """The `dbt` beside this Python, and of its version: asked for that, it would start once more, and ask PyPI too."""

    @cached_property
    def _cli_version(self) -> Any:
        return DBT_PYTHON_VERSION


@dataclass(frozen=True, slots=True)
class _Dbt:
    """`run` runs dbt of these arguments, over the same Spark Connect server."""

    run: Callable[[Sequence[str]], DbtCliInvocation]
    manifest: Mapping[str, Any]

    def name(self, mart: Mart) -> str:
        """What `--select` takes for this one alone: its own name may be that of a folder too, as may its whole name."""
        node = self.manifest["nodes"][mart.unique_id]
        return f"fqn:{'.'.join(node['fqn'])},file:{Path(node['original_file_path']).name}"

    def needs_flag(self, mart: Mart) -> bool:
        """Whether dbt makes it anew for `--full-refresh` alone: it chooses the batches before it asks any macro."""
        config = self.manifest["nodes"][mart.unique_id]["config"]
        return bool(config.get("incremental_strategy") == "microbatch")

    def has_hooks(self, mart: Mart) -> bool:
        """Whether dbt runs other statements before or after the model, which may write whatever they like into it."""
        config = self.manifest["nodes"][mart.unique_id]["config"]
        return bool(config.get("pre-hook") or config.get("post-hook"))


@contextmanager
def _dbt(context: dg.AssetExecutionContext, resource: LakeResource, lake: Lake) -> Iterator[_Dbt]:
    if fault := project_fault():
        raise Refused(str(fault), next_step=f"{DESCRIBE}, then reload the code location")
    home, platform = resource.places.home, resource.configuration.platform
    with (
        default_session(lake.spark()),
        open_dbt_session(context.run_id, home, platform, context.log.warning) as session,
        _environment(platform, session.remote, _parsed_folder(home)) as parsed,
    ):
        dbt = _Cli(project_dir=str(project_folder()), dbt_executable=_executable())
        manifest = among_their_parents(json.loads(_manifest(dbt, parsed).read_text(encoding="utf-8")))
        begun: list[DbtCliInvocation] = []

        def run(arguments: Sequence[str]) -> DbtCliInvocation:
            translator, target = MartTranslator(), session.target
            begun.append(
                dbt.cli(arguments, manifest=manifest, dagster_dbt_translator=translator, target_path=target)
            )
            return begun[-1]

        try:
            yield _Dbt(run, manifest)
        finally:
            for each in begun:  # one that did not heed an interrupt, or whose event this process failed at
                each.process.kill()
                each.process.wait()


def _buildable(
    context: dg.AssetExecutionContext, selected: Sequence[Mart], before: Mapping[str, MartStanding]
) -> list[Mart]:
    """Those whose tables are all there, as automation waits for them: on the others dbt would fail the whole build."""
    for each in selected:
        if absent := before[each.table].absent:
            context.log.warning("%s is not built: there is no table %s", each.table, ", ".join(absent))
    return [each for each in selected if not before[each.table].absent]


def _made_anew(chosen: Sequence[Mart], before: Mapping[str, MartStanding]) -> list[str]:
    names = [each.model for each in chosen if before[each.table].anew]
    return ["--vars", json.dumps({"made_anew": names})] if names else []


def _followed(
    context: dg.AssetExecutionContext, lake: Lake, table: str, standing: MartStanding
) -> dg.AssetCheckResult:
    """What the mart is made of now is noted on it.

    It is built all the same where that fails, and so are those after it.
    """
    try:
        note(lake, table, standing.heads)
    except TidemarkError as error:
        context.log.warning("%s: what it is made of could not be noted on it: %s", table, error)
    return as_result(corrected(table, standing.left))


def _compiled(invocation: DbtCliInvocation, mart: Mart) -> str:
    """The SQL that the mart was built with; nothing where dbt has left none."""
    found = invocation.target_path.joinpath("compiled").rglob(f"{mart.model}.sql")
    return next((each.read_text(encoding="utf-8") for each in found), "")


def _built(
    event: dg.AssetMaterialization,
    built: Built,
    home: Path,
    contracts: Sequence[Contract],
    marts: Mapping[str, Mart],
) -> Iterator[StepOutput]:
    """The result of one mart and the verdict on its tags; its columns go into the discovery file."""
    mart = marts[table_of(event.asset_key)]
    columns = remember(home, mart, event, built).described()
    described = [{"name": each.name, "type": "", "doc": each.description} for each in mart.columns]
    yield dg.MaterializeResult(
        asset_key=event.asset_key,
        metadata={
            **{name: value for name, value in event.metadata.items() if name not in _OURS},
            **column_metadata(mart.table, contracts, columns, described),
        },
    )
    yield _allowed(mart.table, columns, contracts, marts)


def _allowed(
    table: str,
    columns: Mapping[str, Sequence[Mapping[str, Any]]],
    contracts: Sequence[Contract],
    marts: Mapping[str, Mart],
) -> dg.AssetCheckResult:
    """Whether only columns came in that may; a mart that has columns of unknown lineage has not shown that."""
    lineage = lineage_of(columns, contracts)
    found = exposures(lineage, contracts, table)
    unknown = untraced(lineage, table, [each["name"] for each in columns.get(table, ())], marts)
    metadata: dict[str, Any] = {"columns_with_known_lineage": len(lineage.get(table, {}))}
    if unknown:
        metadata["unknown"] = f"what {', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} made of"
        metadata["next"] = _TRACEABLE
    if found:
        metadata["exposed"] = "; ".join(str(each) for each in found)
        metadata["next"] = (
            f"drop the column and build once with full_refresh, or name {table} in columns.<name>.allow of the contract"
        )
    return dg.AssetCheckResult(
        asset_key=table_key(table),
        check_name=ALLOWED,
        passed=not found and not unknown and bool(lineage.get(table)),
        severity=dg.AssetCheckSeverity.ERROR if found else dg.AssetCheckSeverity.WARN,
        description=metadata.get("exposed") or metadata.get("unknown"),
        metadata=metadata,
    )


def _parsed_folder(home: Path) -> Path:
    """Where the project as it is now lies parsed by this dbt; what dbt keeps of that names its folder."""
    folder = project_folder()
    where = bytes(folder) + str(DBT_PYTHON_VERSION).encode()
    return home / FOLDER / f"{digest_of(folder)}{zlib.crc32(where):08x}"


def _manifest(dbt: DbtCliResource, parsed: Path) -> Path:
    """Dbt's manifest, parsed once; what dbt needs to go on from there lies beside it. Those of before are removed."""
    manifest = parsed / "manifest.json"
    if not manifest.exists():  # moved there whole: one that was cut off would fail every build
        with _passing(parsed.with_suffix(".new")) as target:
            dbt.cli(["parse"], target_path=target).wait()
            json.loads((target / manifest.name).read_text(encoding="utf-8"))
            parsed.mkdir(parents=True, exist_ok=True)
            for name in (PARTIAL_PARSE_FILE_NAME, manifest.name):
                (target / name).replace(parsed / name)
        for each in parsed.parent.iterdir():
            if _PARSED.fullmatch(each.name) and each != parsed:
                shutil.rmtree(each, ignore_errors=True)
    return manifest


@contextmanager
def _passing(folder: Path) -> Iterator[Path]:
    """A folder that dbt fills with megabytes, and that nobody reads afterwards."""
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(platform: Platform, remote: str, parsed: Path) -> Iterator[Path]:
    """What `profiles.yml`, dbt and its Spark session read, for dbt's process and for its adapter in this one."""
    added = {
        "SPARK_REMOTE": remote,
        "TIDEMARK_CATALOG": platform.catalog.name,
        "DBT_PROFILES_DIR": str(project_folder()),
        "DBT_TARGET_PATH": str(
            parsed
        ),  # each start of dbt gets a copy of what was parsed, and a folder of its own
        "DO_NOT_TRACK": "1",
        "PYTHONWARNINGS": "ignore",
    }
    warnings.filterwarnings("ignore", message="Failed to set spark.sql.catalogImplementation")
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield parsed
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _executable() -> str:
    return str(Path(sys.executable).with_name("dbt"))
