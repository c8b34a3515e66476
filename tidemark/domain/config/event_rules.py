"""What `events` of a contract must hold: several record types in one topic, a table for each."""

from collections.abc import Iterator, Mapping

from tidemark.domain.config.contract import REGISTRY_FORMATS, Declaration
from tidemark.domain.config.layering import Finding
from tidemark.domain.config.naming import table_fault


def event_findings(said: Declaration) -> Iterator[Finding]:
    """Everything that is wrong with the routes of a contract."""
    if said.events is None:
        return
    if not said.events:
        yield Finding(("events",), "routes nothing: leave it out for one table")
    if said.topics is not None:
        yield Finding(("events",), "needs one topic: the topics of a pattern would share the tables")
    if said.table is not None:
        yield Finding(("table",), "stands beside `events`, which names a table for each record type")
    group = said.ingest.commit_to_group
    if group is not None and len(said.events) > 1 and "{table}" not in group:
        message = (
            "is one group for several tables of one topic: each would overwrite what the others have told it"
        )
        yield Finding(("ingest", "commit_to_group"), message, f"{group}-{{table}}")
    yield from _values(said)
    yield from _tables(said.events)


def _values(said: Declaration) -> Iterator[Finding]:
    if said.value.format not in REGISTRY_FORMATS:
        message = f"format {said.value.format} does not say of which type a record is"
        yield Finding(("value", "format"), message, "registry")
    elif said.value.schema_mode != "by_schema_id":
        message = (
            f"{said.value.schema_mode} reads every record as one type; events are told apart by schema id"
        )
        yield Finding(("value", "schema"), message, "by_schema_id")
    if said.value.message is not None:
        yield Finding(("value", "message"), "stands beside `events`, which names the messages")
    if said.value.envelope != "none":
        yield Finding(("value", "envelope"), "stands beside `events`: change events are of one type")


def _tables(events: Mapping[str, str]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for record, table in events.items():
        path = ("events", record)
        if fault := table_fault(table):
            yield Finding(path, fault)
        other = seen.setdefault(table.lower(), record)
        if other != record:
            yield Finding(path, f"{table} is the table of {other} already")
