"""Names: topics, tables, owners, tags. What Kafka, Iceberg, Spark and Dagster all accept."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tidemark.domain.config.section import PropertyValue

RESERVED_NAMESPACES = frozenset({"kafka", "schema", "maintenance"})
"""First parts of asset keys that are not tables."""
OPERATIONS_LOG = "tidemark_operations"
"""The table of the default namespace that says who changed what; no contract may write into it."""
SHADOW = "_backfill"
"""Suffix of the table that a backfill is loaded into; that has a quarantine of its own."""
LONGEST_NAME = 255
"""Characters, all of one byte, that file systems and catalogs let the name of a table have."""
QUARANTINE = "_quarantine"
"""Suffix of the table of records that could not enter."""
CURRENT = "_current"
"""Suffix of the upsert table, where the contract names none."""
DELETED = "_deleted"
"""Suffix of an upsert table's memory of hard deletes."""
ADDED = SHADOW + QUARANTINE
"""The most that is added to the name of a table: the default upsert table's `_current_deleted` is shorter."""
LINKS = ("http", "https", "mailto")
"""Schemes that a link on a page may have: others may do more than lead somewhere."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_EMAIL = re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,7}\b")
_TAG_KEY = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9_.-]{0,63}")


def _is_identifier(name: str) -> bool:
    """A letter or _, then letters, digits and _: needs no quotes anywhere."""
    return bool(_IDENTIFIER.fullmatch(name))


def as_identifier(text: str) -> str:
    """`shop.orders-v2` -> `shop_orders_v2`."""
    return text.replace(".", "_").replace("-", "_")


def is_topic(name: str) -> bool:
    """Whether Kafka takes the name."""
    return bool(_TOPIC.fullmatch(name)) and name not in {".", ".."}


def default_table(namespace: str, topic: str) -> str:
    """The table of a topic whose contract names none; `t_…` where no table can be called as the topic, but so."""
    name = as_identifier(topic)
    table, other = f"{namespace}.{name}", f"{namespace}.t_{name}"
    return other if table_fault(table) and not table_fault(other) else table


def table_fault(table: str, added: str = ADDED) -> str | None:
    """Why `table` cannot be the name of a table, or None; `added`: the longest suffix of a table that it brings."""
    namespace, dot, name = table.partition(".")
    if not dot or not _is_identifier(namespace) or not _is_identifier(name):
        return (
            f"{table!r} is not a table name: one namespace and one name, each of letters, digits and _ "
            "and beginning with a letter or _, as in shop.orders"
        )
    if namespace.lower() in RESERVED_NAMESPACES:
        return f"namespace {namespace!r} is reserved"
    if name.lower() == OPERATIONS_LOG:
        return f"{name!r} is the name of the operations log"
    if len(name) > (room := LONGEST_NAME - len(added)):
        return (
            f"{name[:20]}… has {len(name)} characters: name a table with {room} at most, "
            f"for …{added} beside it may have {LONGEST_NAME}"
        )
    return None


def _fault(kind: str, message: str, value: str, suggestion: str | None = None) -> PydanticCustomError:
    return PydanticCustomError(
        kind, "{value} {message}", {"value": repr(value), "message": message, "suggestion": suggestion}
    )


def _identifier(value: str) -> str:
    if not _is_identifier(value):
        meant = re.sub(r"\W+", "_", value, flags=re.ASCII).strip("_")
        raise _fault(
            "identifier",
            "is not a name of letters, digits and _",
            value,
            meant if _is_identifier(meant) else None,
        )
    return value


def _topic(value: str) -> str:
    if not is_topic(value):
        raise _fault("topic", "is not a topic name: letters, digits, dot, _ and -, at most 249", value)
    return value


def _owner(value: str) -> str:
    if (value.startswith("team:") and len(value) > len("team:")) or _EMAIL.fullmatch(value):
        return value
    meant = (
        f"team:{value.rpartition(':')[2].strip()}"
        if "@" not in value and value.rpartition(":")[2].strip()
        else None
    )
    raise _fault("owner", "is not an owner: team:name or an e-mail address", value, meant)


def _link(value: str) -> str:
    scheme = urlsplit(value.strip()).scheme
    if scheme and scheme not in LINKS:
        raise _fault("link", f"is no link that a page may have: {', '.join(LINKS)}", value)
    return value


def _tag_key(value: str) -> str:
    if not _TAG_KEY.fullmatch(value):
        raise _fault("tag", "is not a tag name: letters, digits, _ - and dot, at most 63", value)
    if value.startswith(("tidemark/", "dagster/")):
        raise _fault("tag", "is a tag that Tidemark and Dagster set themselves", value)
    return value


def _tag_value(value: str) -> str:
    if not _TAG_VALUE.fullmatch(value):
        raise _fault("tag", "is not a tag value: letters, digits, _ - and dot, at most 63", value)
    return value


def _namespace(value: str) -> str:
    _identifier(value)
    if value.lower() in RESERVED_NAMESPACES:
        raise _fault("namespace", "is a reserved namespace", value)
    return value


Identifier = Annotated[str, AfterValidator(_identifier)]
Namespace = Annotated[str, AfterValidator(_namespace)]
Topic = Annotated[str, AfterValidator(_topic)]
Link = Annotated[str, AfterValidator(_link)]
"""An address to click on, or words."""
Owner = Annotated[str, AfterValidator(_owner), Field(examples=["team:orders", "orders@example.com"])]
TagKey = Annotated[str, AfterValidator(_tag_key)]
TagValue = Annotated[PropertyValue, AfterValidator(_tag_value)]
