"""Text to a column of another type, as its one exact spelling has it: keys of format `string`.

Belongs here: expressions that are NULL for text that is not exactly a value of the type.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import ColumnType, Primitive
from tidemark.engine.decode.connect import whole, zoned_timestamp

_WHOLE = "(?:0|-?[1-9][0-9]*)"
_SPELLINGS = {
    "boolean": "true|false",
    "int": _WHOLE,
    "long": _WHOLE,
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,6})?",
}


def is_readable(target: ColumnType) -> bool:
    """Whether text has one exact spelling of the type: no floating number, no bytes, nothing nested."""
    return isinstance(target, Primitive) and (
        target.name in {"string", "timestamptz", *_SPELLINGS} or target.decimal is not None
    )


def exactly(text: Column, target: Primitive) -> Column:
    """The value that `text` spells in decimal digits or ISO 8601; NULL for every other text."""
    if target.name == "string":
        return text
    if target.name == "timestamptz":
        return zoned_timestamp(text)
    spelling = _decimal(target.decimal[1]) if target.decimal else _SPELLINGS[target.name]
    return F.when(whole(text, spelling), text.try_cast(spark_ddl(target)))


def _decimal(scale: int) -> str:
    return f"-?(?:0|[1-9][0-9]*)(?:[.][0-9]{{1,{scale}}})?" if scale else _WHOLE
