"""How far a table and the writers of its topic are apart: what waits to be changed, and columns that nobody writes.

A pure function of the table's columns, the registered writers and the plan. Judging is the check's, `schema_drift`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.types import Struct
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.plan.schema_plan import SchemaPlan, WriterColumns

Grade = Literal["none", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Drift:
    """`plan` leads from the table to its topic; `newest` names the newest writer.

    `unsent` are columns that it no longer sends, `foreign` those that no registered writer ever had: both read NULL.
    """

    table: str
    plan: SchemaPlan
    newest: str = ""
    unsent: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """`error` where no approval helps all of it. A column that was removed as the contract lets it is none."""
        if self.plan.of("impossible"):
            return "error"
        return "warn" if self.plan.of("apply", "review") or self.foreign else "none"

    def sentences(self) -> Iterator[str]:
        """What is apart, for a person; nothing when nothing is."""
        for verdict, says in (
            ("apply", "the next run applies"),
            ("review", f"plan {self.plan.id} waits for an approval of"),
            ("impossible", "no approval can help"),
            ("quarantine", "the contract sends the records to quarantine of"),
        ):
            found = [
                f"{c.kind} {'.'.join(c.path)}".rstrip() for c in self.plan.changes if c.verdict == verdict
            ]
            if found:
                yield f"{says}: {', '.join(found)}"
        if self.foreign:
            yield f"no registered schema has {', '.join(self.foreign)}"
        if self.unsent:
            yield f"{self.newest} no longer sends {', '.join(self.unsent)}"

    def as_metadata(self) -> dict[str, Any]:
        """Plan, changes, columns and the next command, where there are any."""
        found: dict[str, Any] = {
            "newest_schema": self.newest,
            "plan": self.plan.id,
            "changes": [change.as_json() for change in self.plan.changes],
            "no_longer_sent": ", ".join(self.unsent),
            "in_no_schema": ", ".join(self.foreign),
            "next": self._next(),
        }
        return {name: value for name, value in found.items() if value}

    def _next(self) -> str:
        if self.plan.of("review"):
            return f"tidemark approve {self.table} {self.plan.id} --reason …"
        if self.plan.of("impossible"):
            return f"tidemark plan {self.table}"
        return f"tidemark run {self.table}" if self.plan.of("apply") else ""


def drift(
    columns: Struct, writers: Iterable[WriterColumns], plan: SchemaPlan, *, whole: bool = True
) -> Drift:
    """The drift of a table of these columns, `_kafka` aside; `whole` when the writers are all that there ever were."""
    sound = sorted((each for each in writers if not each.fault), key=lambda each: each.age)
    if not sound:
        return Drift(plan.table, plan)
    newest = sound[-1]
    unsent = _lacking(newest.columns, columns)
    known = [set(_lacking(each.columns, columns)) for each in sound]
    foreign = [path for path in unsent if whole and all(path in lacking for lacking in known)]
    name = newest.named if newest.id else "the contract"
    return Drift(
        plan.table, plan, name, tuple(path for path in unsent if path not in foreign), tuple(foreign)
    )


def _lacking(writer: Struct, table: Struct) -> tuple[str, ...]:
    """The table's columns that a writer does not have, topmost paths alone."""
    try:
        return tuple(each.dotted for each in covers(writer, table) if each.kind == "missing")
    except SchemaUnsupported:
        return ()
