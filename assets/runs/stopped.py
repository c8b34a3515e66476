"""How a run says which of its tables stopped, and how: by tags, which a sensor reads without any event."""

import json
from collections.abc import Mapping
from contextlib import suppress

from assets.names import STOPPED_TAG
from tidemark.domain.states import State, named_state

LONGEST = 2000
"""Characters of one tag: PostgreSQL refuses one that does not fit into an entry of its index, 2704 bytes."""


def stopped_of(tags: Mapping[str, str]) -> dict[str, State]:
    """The tables by state, as the tags of a run have them; what nobody can read says nothing."""
    found: dict[str, State] = {}
    for text in _own(tags).values():
        with suppress(ValueError, AttributeError):
            found |= {str(table): named_state(state) for table, state in json.loads(text).items()}
    return found


def stopped_tags(stopped: Mapping[str, State], before: Mapping[str, str]) -> dict[str, str]:
    """As many tags as it takes; those among `before` that it takes no more say nothing, for Dagster removes none."""
    parts: list[dict[str, State]] = [{}]
    for table, state in stopped.items():
        if len(json.dumps({**parts[-1], table: state})) > LONGEST:
            parts.append({})
        parts[-1][table] = state
    names = (f"{STOPPED_TAG}.{n}" if n else STOPPED_TAG for n in range(len(parts)))
    return dict.fromkeys(_own(before), "{}") | dict(zip(names, map(json.dumps, parts), strict=True))


def _own(tags: Mapping[str, str]) -> dict[str, str]:
    return {tag: text for tag, text in tags.items() if tag.partition(".")[0] == STOPPED_TAG}
