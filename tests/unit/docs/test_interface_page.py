"""What programs may rely on is what the code has: every shape, column, field, property and variable of the page."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import pytest

from tidemark.cli.check import report
from tidemark.cli.metrics import _FIGURES
from tidemark.cli.services import services_app
from tidemark.domain.alerts import Alert, message
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.naming import OPERATIONS_LOG
from tidemark.domain.config.upsert import SOFT_COLUMN
from tidemark.domain.errors import Problem, Stopped
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.formats.explanation import CAUSES
from tidemark.domain.ledger import ledger, merge_ledger
from tidemark.domain.ledger.fate import Fate
from tidemark.domain.outcome import Outcome
from tidemark.domain.plan.proposal import Seen, Sizes, propose
from tidemark.engine.drill.drill import Score
from tidemark.engine.ingest.quarantine import COLUMNS
from tidemark.engine.look.quarantined import CauseCount
from tidemark.engine.look.status import Status
from tidemark.engine.preview.foresee import Foresight
from tidemark.engine.table.operations import _COLUMNS, Operation
from tidemark.engine.verify.fates import Answer
from tidemark.engine.verify.comparison import NONE, Columns, Comparison, Side
from tidemark.engine.verify.differences import Difference, Differences
from tidemark.engine.verify.marks import Count
from tidemark.services.stack import Stack

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "interface.md").read_text(encoding="utf-8")
SOURCES = ("tidemark", "orchestration", "assets", "jobs", "sensors", "resources", "dbt_project")
COMMENT = re.compile(r"\s//[^\"\n]*(?:\"[^\"\n]*\"[^\"\n]*)*$", re.MULTILINE)
VARIABLE = re.compile(r"\bTIDEMARK_[A-Z_]*[A-Z]\b")
PROPERTY = re.compile(r"[\"'](tidemark\.[a-z][a-z.-]*)[\"']")
LOGGERS = {"tidemark.progress", "tidemark.group", "tidemark.merge", "tidemark.quarantine", "tidemark.review"}
PARTS = {"engine", "domain", "services", "spark"}
"""What follows `tidemark.` in the name of a module or a class."""


def section(heading: str, level: str = "###") -> str:
    """The page from a heading to the next one."""
    found = re.split(rf"^{level} {re.escape(heading)}$", PAGE, flags=re.MULTILINE)
    assert len(found) == 2, f"{heading}: {len(found) - 1} times"
    return re.split(r"^##+ ", found[1], flags=re.MULTILINE)[0]


def example(heading: str) -> Any:
    """The JSON under a heading, without its comments; of a list the first."""
    text = re.search(r"```jsonc\n(.*?)```", section(heading), re.DOTALL)[1]
    found = json.loads(COMMENT.sub("", text))
    return found[0] if isinstance(found, list) else found


def first_cells(heading: str, level: str = "###") -> list[str]:
    """Names in the first column of a table, in order."""
    rows = [line.split("|")[1] for line in section(heading, level).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def sources() -> str:
    files = (each for folder in SOURCES for each in sorted((ROOT / folder).rglob("*")))
    kinds = {".py", ".yml", ".yaml", ".sql", ".java"}
    built = {"target", "logs", "dbt_packages"}
    return "\n".join(
        each.read_text(encoding="utf-8")
        for each in files
        if each.suffix in kinds and each.is_file() and not built & set(each.relative_to(ROOT).parts)
    )


SOURCE = sources()
SIDE = Side("a.b", None, None, None, NONE, {})
SHAPES: dict[str, dict[str, Any]] = {
    "status": Status("a.b", "t", "fresh", *[None] * 7, {}, {}, *[None] * 4, "").as_json(),
    "status --quarantine": CauseCount("a.b", "undecodable").as_json(),
    "run": Outcome("a.b", "fresh").as_json(),
    "reconcile": Count(0, 0, 1).as_json(),
    "check": report(None, [Problem("f", None, "k", "m")]),
    "plan": Foresight("a.b", "", "review", (), (), ("x",), {}, {"partition_by": "f:1"}).as_json(),
    "new": {
        **propose(Seen("t", "a.b", "main", {}, Struct(()), Sizes(0, 0, 0))).as_json(),
        "file": "",
        "written": False,
        "yaml": "",
    },
    "The verbs that change something": {
        **Operation("a", "pause", "a.b", "", "", {}).as_json(),
        "launchpad": {},
    },
    "drill": {
        **dict.fromkeys(("dry_run", "passed", "topic", "table", "seconds", "run_id", "launchpad")),
        "scenarios": [asdict(Score("kill", passed=True))],
    },
    "compare": Comparison(
        SIDE, SIDE, (), "", Columns((), (), (), {}), Differences(0, 0, 0, (Difference({}, 0, 0, {}),))
    ).as_json(),
    "The webhook": message([Alert("a.b", "it stopped")]),
}


@pytest.mark.parametrize("heading", sorted(SHAPES))
def test_a_command_prints_the_keys_that_its_example_has(heading):
    assert keys(example(heading), SHAPES[heading]) == keys(SHAPES[heading], SHAPES[heading])


def keys(found: Any, as_in: Any) -> Any:
    """The keys of objects, as deep as `as_in` has any; free ones (offsets, names) are empty there."""
    if isinstance(as_in, dict) and as_in:
        return {name: keys(found.get(name), as_in.get(name)) for name in found}
    if isinstance(as_in, list) and as_in and isinstance(found, list) and found:
        return [keys(found[0], as_in[0])]
    return None


def test_the_addresses_of_the_embedded_stack_are_under_the_keys_of_the_example(tmp_path):
    found = Stack(tmp_path).status()
    told = example("services")
    assert told.keys() == found.keys()
    for part in ("kafka", "schema_registry", "spark", "catalog", "processes", "services"):
        assert told[part].keys() == found[part].keys()


def test_every_record_has_the_first_keys_of_where_and_one_of_its_fates():
    assert list(example("where"))[:7] == list(Answer("a.b", "t", 0, 0, "published").as_json())
    assert set(get_args(Fate)) <= set(re.findall(r"`([a-z_]+)`", section("where")))


def test_an_error_has_the_keys_of_the_example():
    told = json.loads(COMMENT.sub("", re.search(r"```jsonc\n(.*?)```", PAGE, re.DOTALL)[1]))
    assert told["error"].keys() == Stopped("ledger_missing", "a.b", "").as_json().keys()


def test_every_command_with_json_has_a_heading():
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    commands = re.findall(r"^## tidemark (\S+)$", text, re.MULTILINE)
    verbs = {"pause", "resume", "accept", "approve", "maintain", "replay", "rollback", "backfill"}
    without = {"demo", "dev"}
    headings = set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE))
    assert {each for each in commands if each not in verbs | without} <= headings
    assert services_app.registered_commands
    assert verbs <= set(first_cells("The verbs that change something"))


def test_every_figure_of_prometheus_is_named():
    assert {f"tidemark_{name}" for name in _FIGURES} <= set(first_cells("metrics"))


def test_the_columns_of_kafka_and_of_debezium_are_those_of_the_tables():
    assert first_cells("`_kafka`, of append and upsert tables") == [f.name for f in KAFKA_COLUMN.type.fields]
    assert first_cells("`_cdc`, of Debezium's topics") == [f.name for f in CDC.type.fields]
    assert f"`{SOFT_COLUMN.name}`" in section("`<upsert table>`")


def test_the_columns_of_the_quarantine_are_those_of_the_table():
    flat = re.sub(r"<.*>", "", COLUMNS)
    assert first_cells("`<table>_quarantine`") == [each.split()[0] for each in flat.split(", ")]
    assert all(f"`{cause}`" in section("`<table>_quarantine`") for cause in CAUSES)


def test_the_columns_of_the_operations_log_are_those_of_the_table():
    named = first_cells(f"`<default_namespace>.{OPERATIONS_LOG}`")
    assert sorted(named) == sorted(_COLUMNS)


def test_every_field_of_the_ledgers_is_told():
    own = {field.alias or name for name, field in ledger.Ledger.model_fields.items()}
    assert set(first_cells("The ledger of an append table")) == own
    assert set(first_cells("The ledger of an upsert table")) == set(merge_ledger.MergeLedger.model_fields)


def test_every_property_that_the_code_names_is_told():
    named = {
        each.rstrip(".") for each in PROPERTY.findall(SOURCE) if each.split(".")[1] not in PARTS
    } - LOGGERS
    assert len(named) > 30
    assert [each for each in sorted(named) if each not in PAGE] == []


def test_the_variables_are_those_that_the_sources_name():
    assert set(VARIABLE.findall(section("Environment", "##"))) == set(VARIABLE.findall(SOURCE))
