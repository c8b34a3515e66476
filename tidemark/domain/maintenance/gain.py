"""What maintenance of one table found and did: plain numbers that a UI can plot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["compaction", "snapshot_expiry", "orphan_files"]
KINDS: tuple[Kind, ...] = ("compaction", "snapshot_expiry", "orphan_files")
Step = Literal["compaction", "retention", "snapshot_expiry", "orphan_files"]
"""`retention` of rows is done, and shown, with `snapshot_expiry`."""


@dataclass(frozen=True, slots=True)
class Gain:
    """One kind of maintenance on one table. `numbers` of a dry run are those of the plan."""

    table: str
    kind: Step
    acted: bool
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """For `tidemark maintain --json` and the operations log."""
        return {
            "table": self.table,
            "kind": self.kind,
            "acted": self.acted,
            "reason": self.reason,
            **({"error": dict(self.error)} if self.error else {}),
            **{name: round(number, 3) for name, number in self.numbers.items()},
            "plan": dict(self.plan),
        }
