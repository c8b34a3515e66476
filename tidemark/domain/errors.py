"""The errors that leave the engine and the domain; those of the embedded services are in services/errors.py.

TidemarkError
├── ConfigurationError      a contract or the platform file is wrong; lists every problem
├── Refused                 a verb was asked for something that it must not do
├── Stopped                 a table is in a stop state; a new attempt alone rarely helps
├── Outage                  a service does not answer; a new attempt from the plan may succeed
├── Overtaken               main moved under an attempt; plan again
├── Interrupted             Ctrl-C or SIGTERM ended a verb; the same again completes it
└── SchemaUnsupported       a schema has no exact column types
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.domain.secrets import redact, redact_text
from tidemark.domain.states import State, meaning, named_state, remedy, safe

NO_TABLE = "-"
"""The table of an error that was raised where none is known: whoever asked for a table puts its name in."""


class TidemarkError(Exception):
    """Base of the tree. `fields` are plain JSON values; `next_step` is what a person does now. None shows a secret."""

    def __init__(self, message: str, *, next_step: str = "", **fields: Any) -> None:
        self.message = redact_text(message)
        self.next_step = next_step
        self.fields: dict[str, Any] = redact(fields)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\nNext: {self.next_step}" if self.next_step else self.message

    def as_json(self) -> dict[str, Any]:
        """{"kind", "message", "next_step", **fields}."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "next_step": self.next_step,
            **self.fields,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration file; `line` counts from 1, `key` is dotted."""

    file: str
    line: int | None
    key: str
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        nearest = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return (
            f"{where}: {self.key}: {self.message}{nearest}"
            if self.key
            else f"{where}: {self.message}{nearest}"
        )


class ConfigurationError(TidemarkError):
    """The configuration was refused before anything ran."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(str(problem) for problem in self.problems),
            next_step="mend the lines above, then: tidemark check",
            problems=[asdict(problem) for problem in self.problems],
        )


class Refused(TidemarkError):
    """A verb would do harm or has nothing to act on; nothing was changed."""


class _TableError(TidemarkError):
    def __init__(
        self,
        state: State,
        table: str,
        detail: str,
        *,
        topic: str = "?",
        cluster: str = "main",
        next_step: str = "",
        **fields: Any,
    ) -> None:
        self.state: State = state
        self.table = table
        named = "TABLE" if table == NO_TABLE else table
        says = meaning(state, table=named, topic=topic, cluster=cluster)
        subject = state if table == NO_TABLE else f"{table} is {state}"
        super().__init__(
            f"{subject}: {says} {detail}".rstrip(),
            next_step=next_step or remedy(state, table=named, topic=topic, cluster=cluster),
            state=state,
            table=None if table == NO_TABLE else table,
            detail=detail,
            **{**fields, "safe": safe(state, table=named, topic=topic, cluster=cluster)},
        )


class Stopped(_TableError):
    """A stop state: the ledger has not moved, other tables go on (docs/operations.md, States)."""


class Outage(_TableError):
    """A service does not answer or lost our session: the outcome of the last call is unknown, look at the table."""


class Overtaken(TidemarkError):
    """The table is not what the plan named: main is elsewhere (the stage was dropped), or its schema is another."""

    def __init__(self, table: str, planned: int | None = None, found: int | None = None) -> None:
        moved = f"main moved from snapshot {planned} to {found} meanwhile"
        super().__init__(
            f"{table}: {moved if planned else 'someone else changed the table in the same moment'}",
            next_step="plan again",
            table=table,
            planned=planned,
            found=found,
        )


class Interrupted(TidemarkError):
    """A person ended a verb before its end: what it had committed stays, all else is as it was."""

    def __init__(self, verb: str, command: str) -> None:
        super().__init__(
            f"{verb} was interrupted: what it had committed stays, the rest was not done",
            next_step=command,
            verb=verb,
        )


class SchemaUnsupported(TidemarkError):
    """A schema, or a part of it at `path` (empty: all of it), has no exact column type (docs/types.md)."""

    def __init__(self, path: str, reason: str, **fields: Any) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}" if path else reason, path=path, reason=reason, **fields)


class Cause(Exception):
    """Stands for another library's error whose text names a secret: its text without, and its traceback."""


def without_secrets(error: BaseException) -> BaseException:
    """The error and those below it, none with a secret in its text: Dagster keeps the texts of the whole chain."""
    chain: list[BaseException] = []
    under: BaseException | None = error
    while under is not None and under not in chain:
        chain.append(under)
        under = under.__cause__ or (None if under.__suppress_context__ else under.__context__)
    below: BaseException | None = None
    for each in reversed(chain):
        text = f"{type(each).__name__}: {each}"
        shown = redact_text(text)
        ours = isinstance(each, TidemarkError)
        told = each if ours or shown == text else Cause(shown).with_traceback(each.__traceback__)
        told.__cause__ = below
        below = told
    return below or error


def error_fields(error: BaseException) -> Mapping[str, Any]:
    """The JSON of any error, ours or not."""
    if isinstance(error, TidemarkError):
        return error.as_json()
    return {
        "kind": type(error).__name__,
        "message": redact_text(str(error)),
        "next_step": "",
        "state": "failed",
    }


def state_of(error: BaseException) -> State:
    """The state that an error puts its table into."""
    return named_state(error_fields(error).get("state"))
