"""The published matrix: what becomes of each change of a schema or of a contract. Tests run every row."""

from dataclasses import dataclass, field
from typing import Any

from matrix import ENUM, FIXED, array, logical


@dataclass(frozen=True)
class ChangeRow:
    """From one Avro version to the next: `fields` of a record, the change that is planned and its default verdict."""

    change: str
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    kind: str | None
    path: str
    key: str
    default: str
    happens: str
    partition_by: list[str] = field(default_factory=list)
    between: list[dict[str, Any]] | None = None
    upsert: list[str] | None = None

    @property
    def versions(self) -> list[list[dict[str, Any]]]:
        """The fields of every version, oldest first."""
        return [each for each in (self.before, self.between, self.after) if each is not None]


def f(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def struct(*fields: dict[str, Any], name: str = "S") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def keyed(key: Any) -> dict[str, Any]:
    """A map whose keys are no strings."""
    return {**array(struct(f("key", key), f("value", "string"), name="Pair")), "logicalType": "map"}


ID = f("id", "long")
DEC = logical("bytes", "decimal", precision=5, scale=2)
WIDER_DEC = logical("bytes", "decimal", precision=9, scale=2)
ADDED = "added last, optional; older rows read NULL, older writers go on"
WIDENED = "widens in place; writers of the narrower type go on, and it never flips back"
GONE = "stays and reads NULL (or the schema's default) from then on; nothing is dropped"
PARKED = (
    "its records wait; approved, they go to the quarantine (`schema_not_allowed`), and other writers go on"
)
CHANGES = [
    ChangeRow("a field added", [ID], [ID, f("b", "string")], "add_column", "b", "add_column", "apply", ADDED),
    ChangeRow(
        "a field added in a struct",
        [f("s", struct(ID))],
        [f("s", struct(ID, f("b", "int")))],
        "add_column",
        "s.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "a field added in a list's elements",
        [f("l", array(struct(ID)))],
        [f("l", array(struct(ID, f("b", "int"))))],
        "add_column",
        "l.element.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "a field added in a map's values",
        [f("m", mapping(struct(ID)))],
        [f("m", mapping(struct(ID, f("b", "int"))))],
        "add_column",
        "m.value.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "int to long", [f("a", "int")], [f("a", "long")], "widen_type", "a", "widen_type", "apply", WIDENED
    ),
    ChangeRow(
        "float to double",
        [f("a", "float")],
        [f("a", "double")],
        "widen_type",
        "a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "a decimal of more digits",
        [f("a", DEC)],
        [f("a", WIDER_DEC)],
        "widen_type",
        "a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a list",
        [f("a", array("int"))],
        [f("a", array("long"))],
        "widen_type",
        "a.element",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a map's values",
        [f("a", mapping("int"))],
        [f("a", mapping("long"))],
        "widen_type",
        "a.value",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a struct",
        [f("s", struct(f("a", "int")))],
        [f("s", struct(f("a", "long")))],
        "widen_type",
        "s.a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "a union gets a third branch",
        [f("a", ["string", "long"])],
        [f("a", ["string", "long", "boolean"])],
        "add_column",
        "a.boolean",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "a field renamed, with the old name as alias",
        [ID, f("a", "int")],
        [ID, f("b", "int", aliases=["a"])],
        "add_column",
        "b",
        "add_column",
        "apply",
        "another column, for columns match by name; the old one stays and reads NULL for new records, the new one NULL or its default for old ones",
    ),
    ChangeRow(
        "a field removed and added again",
        [ID, f("a", "int")],
        [ID, f("a", "int")],
        None,
        "",
        "",
        "",
        "nothing: it is the same column; records in between read NULL (or the schema's default)",
        between=[ID],
    ),
    ChangeRow(
        "another size of a fixed",
        [f("a", FIXED)],
        [f("a", {**FIXED, "size": 3})],
        None,
        "",
        "",
        "",
        "nothing: binary has no size; each value is held to the size of its own schema",
    ),
    ChangeRow(
        "a default changed",
        [f("a", "int", default=0)],
        [f("a", "int", default=1)],
        None,
        "",
        "",
        "",
        "nothing: a default stands for what a writer lacks, the newest version's",
    ),
    ChangeRow(
        "a symbol taken out of an enum",
        [f("a", {**ENUM, "symbols": ["A", "B", "C"]})],
        [f("a", ENUM)],
        None,
        "",
        "",
        "",
        "nothing: rows that have it keep it",
    ),
    ChangeRow(
        "long to int",
        [f("a", "long")],
        [f("a", "int")],
        None,
        "",
        "",
        "",
        "nothing: the wider column holds both",
    ),
    ChangeRow(
        "a field becomes nullable",
        [f("a", "string")],
        [f("a", ["null", "string"])],
        None,
        "",
        "",
        "",
        "nothing: value columns are optional from the start",
    ),
    ChangeRow(
        "a symbol added to an enum",
        [f("a", ENUM)],
        [f("a", {**ENUM, "symbols": ["A", "B", "C"]})],
        None,
        "",
        "",
        "",
        "nothing: an enum is a string",
    ),
    ChangeRow(
        "fields in another order",
        [ID, f("a", "int")],
        [f("a", "int"), ID],
        None,
        "",
        "",
        "",
        "nothing: columns match by name",
    ),
    ChangeRow(
        "a doc added",
        [f("a", "int")],
        [f("a", "int", doc="how many")],
        "comment",
        "a",
        "",
        "apply",
        "becomes the column's comment; the contract's description stands above it",
    ),
    ChangeRow(
        "a field removed", [ID, f("a", "int")], [ID], "remove_column", "a", "remove_column", "apply", GONE
    ),
    ChangeRow(
        "a field removed in a struct",
        [f("s", struct(ID, f("a", "int")))],
        [f("s", struct(ID))],
        "remove_column",
        "s.a",
        "remove_column",
        "apply",
        GONE,
    ),
    ChangeRow(
        "a field removed in a list's elements",
        [f("l", array(struct(ID, f("a", "int"))))],
        [f("l", array(struct(ID)))],
        "remove_column",
        "l.element.a",
        "remove_column",
        "apply",
        GONE,
    ),
    ChangeRow(
        "a field removed that partition_by uses",
        [ID, f("a", "int")],
        [ID],
        "remove_column",
        "a",
        "",
        "impossible",
        "refused: further rows would all fall into the NULL partition; edit `partition_by` first",
        ["a"],
    ),
    ChangeRow(
        "a field removed that is a key of upsert",
        [ID, f("a", "int")],
        [ID],
        "remove_column",
        "a",
        "remove_column",
        "review",
        "its records wait, whatever `remove_column` says of others; approved, they go to the quarantine (`null_key`)",
        upsert=["a"],
    ),
    ChangeRow(
        "int to string",
        [f("a", "int")],
        [f("a", "string")],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "int to double",
        [f("a", "int")],
        [f("a", "double")],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a decimal of another scale",
        [f("a", DEC)],
        [f("a", logical("bytes", "decimal", precision=9, scale=3))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a scalar becomes a struct",
        [f("a", "int")],
        [f("a", struct(ID))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a record without fields gets its first",
        [f("a", struct())],
        [f("a", struct(ID))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a record loses its last field",
        [f("a", struct(ID))],
        [f("a", struct())],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a type changed in a list",
        [f("a", array("int"))],
        [f("a", array("string"))],
        "incompatible",
        "a.element",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "the key type of a map",
        [f("a", keyed("int"))],
        [f("a", keyed("long"))],
        "incompatible",
        "a.key",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a union gets a second branch",
        [f("a", "string")],
        [f("a", ["string", "long"])],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    *(
        ChangeRow(name, [f("a", old)], [f("a", new)], "incompatible", "a", "incompatible", "review", PARKED)
        for name, old, new in (
            ("a number gets a unit (int to time-millis)", "int", logical("int", "time-millis")),
            ("a number loses its unit", logical("long", "timestamp-nanos"), "long"),
            (
                "a unit changed in a list",
                array(logical("long", "timestamp-nanos")),
                array(logical("long", "time-micros")),
            ),
        )
    ),
    ChangeRow(
        "time-millis to time-micros",
        [f("a", logical("int", "time-millis"))],
        [f("a", logical("long", "time-micros"))],
        None,
        "a",
        None,
        "–",
        "both are microseconds since midnight in the table",
    ),
    ChangeRow(
        "timestamp to date",
        [f("a", logical("long", "timestamp-micros"))],
        [f("a", logical("int", "date"))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a record that contains itself",
        [ID],
        [ID, f("next", ["null", "R"])],
        "incompatible",
        "*",
        "",
        "impossible",
        "the table stops as `schema_unsupported` at its first record; other topics go on",
    ),
    ChangeRow(
        "a name equal but for case",
        [f("a", "int")],
        [f("a", "int"), f("A", "int")],
        "incompatible",
        "*",
        "",
        "impossible",
        "the table stops as `schema_unsupported` at its first record",
    ),
]


@dataclass(frozen=True)
class EditRow:
    """An edit of the contract."""

    edit: str
    before: dict[str, Any]
    after: dict[str, Any]
    kind: str
    verdict: str
    happens: str


EDITS = [
    EditRow(
        "`partition_by`",
        {},
        {"partition_by": ["day(at)"]},
        "partition_spec",
        "apply",
        "spec evolution: old files keep their spec, every row stays readable",
    ),
    EditRow(
        "`partition_by` on a column that is not there",
        {},
        {"partition_by": ["nope"]},
        "partition_spec",
        "impossible",
        "says which column is meant; ingest goes on with the old layout",
    ),
    EditRow(
        "`sort_by`",
        {},
        {"sort_by": ["id"]},
        "sort_order",
        "apply",
        "new files are sorted; old ones when compaction rewrites them",
    ),
    EditRow(
        "`format_version: 3`",
        {},
        {"format_version": 3},
        "format_version",
        "review",
        "upgraded once approved; it cannot be undone",
    ),
    EditRow(
        "`format_version` back to 2",
        {"format_version": 3},
        {},
        "format_version",
        "impossible",
        "a table's format never goes back",
    ),
    EditRow(
        "`table_properties`",
        {},
        {"table_properties": {"a": "1"}},
        "property",
        "apply",
        "set; a key taken out goes back to its default",
    ),
    EditRow(
        "`owners`, `runbook`, `freshness`",
        {},
        {"runbook": "https://x"},
        "property",
        "apply",
        "kept with the table as properties",
    ),
    EditRow(
        "`description`, `columns.*.description`",
        {},
        {"description": "Orders"},
        "comment",
        "apply",
        "comments of table and columns",
    ),
    EditRow(
        "`key`, `value`",
        {},
        {"key": {"format": "string"}},
        "contract",
        "apply",
        "from the next batch on; rows that are there stay",
    ),
    EditRow(
        "`event_time`",
        {},
        {"event_time": "at", "partition_by": ["id"]},
        "contract",
        "apply",
        "late rows are counted by it from the next batch on, and the watermark begins anew",
    ),
    EditRow(
        "`retention.append`",
        {},
        {"retention": {"append": "7d"}},
        "contract",
        "apply",
        "the next maintenance deletes by it",
    ),
    EditRow(
        "`upsert` added or taken out",
        {},
        {"upsert": ["id"]},
        "contract",
        "apply",
        "its table is built, or stays and is no longer merged into",
    ),
    EditRow(
        "`upsert.keys`, `order_by`, `deletes`",
        {"upsert": ["id"]},
        {"upsert": ["who"]},
        "contract",
        "apply",
        "the upsert table takes no more rows (`table_incompatible`) until it is built again",
    ),
]
NAMES = [
    (
        "`table` names one with a NOT NULL column",
        "make_optional",
        "apply or impossible",
        "optional from then on, for a record may lack it; impossible for an identifier field",
    ),
    (
        "`table`",
        "rename",
        "review",
        "approved, the catalog renames the table; ledger, history, quarantine, upsert table and a backfill under way go along. `tidemark accept TABLE --first-load` loads anew instead",
    ),
    (
        "`table` names one that Tidemark did not make",
        "adopt",
        "apply or impossible",
        "taken over when its columns fit; rows and layout stay",
    ),
    (
        "the contract is deleted",
        "release",
        "apply",
        "the table stays as it is, and is neither written nor maintained any more",
    ),
    (
        "`topic`",
        "contract",
        "impossible",
        "the ledger counts offsets of the old topic: `tidemark accept TABLE --new-epoch`",
    ),
]
