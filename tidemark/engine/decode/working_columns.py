"""Columns that a decoded record has beside those of its row, by name."""

from tidemark.domain.columns.types import KAFKA_COLUMN

KAFKA = KAFKA_COLUMN.name
VALUE = "_tidemark_value"
"""The value's bytes."""
FATE = "_tidemark_fate"
"""What becomes of the record (`domain.ledger.evidence.Fate`), never NULL."""
CAUSE = "_tidemark_cause"
"""Why it makes no row (docs/types.md); NULL where nothing keeps it out."""
DETAIL = "_tidemark_detail"
"""Words for that, where they are known without a second look."""
