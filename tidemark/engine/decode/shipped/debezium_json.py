"""Debezium's records as JSON, with and without an embedded schema: documents to rows with `_cdc`.

Belongs here: the shape of the envelope. The same for Avro is in `engine/decode/debezium.py`.
"""

from typing import Any, Literal

from tidemark.domain.formats.json_nodes import Leaf, Node, Object
from tidemark.engine.decode.shipped.connect_json import field_schemas, meant, opened
from tidemark.engine.decode.shipped.json_values import JsonFault, shown, text_of

CDC, META = "_cdc", "__"
WHOLE = "value"
_DIGITS = 20
_BOOKKEEPING = frozenset({"Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "MessageValue"})
_OPS = ("c", "r", "u", "d", "t")
"""No set: what stands in their place may be anything, which a set cannot be asked for."""
_TIMES = frozenset({"ts_ms", "ts_us", "ts_ns"})
Envelope = Literal["debezium", "debezium_flat"]


class Rows:
    """Takes a document to its row: what `root` says, without what only other envelopes have.

    Called with a document it raises JsonFault, of cause `skip` or `truncate` for what makes no row.
    """

    def __init__(self, root: Object, envelope: Envelope, *, truncates: bool) -> None:
        self.root = root
        self.envelope = envelope
        self.truncates = truncates
        self.whole = next((p.node for p in root.properties if p.name == WHOLE), None) == Leaf("text")

    def __call__(self, document: Any) -> dict[str, Any]:
        """The row of a parsed document."""
        schema, payload = opened(document)
        if payload is None and self.envelope == "debezium_flat":
            return {
                CDC: {"op": "d"}
            }  # a delete that was not rewritten: with a schema, Connect writes its NULL
        if not isinstance(payload, dict):
            raise JsonFault("invalid_against_schema", "no Debezium record: not an object")
        if self.envelope == "debezium":
            return self._enveloped(schema, payload)
        return self._flat(schema, payload)

    def _enveloped(self, schema: Any, payload: dict[str, Any]) -> dict[str, Any]:
        op = payload.get("op")
        if op is None and self._is_bookkeeping(schema, payload):
            raise JsonFault("skip", "no change of a row")
        self._check_of_a_row(op)
        name = "before" if op == "d" else "after"
        row = payload.get(name)
        if op not in _OPS or (row is None and op in {"c", "r", "u"}):
            raise JsonFault(
                "invalid_against_schema", f"no change of a row: op {shown(op)!r}, {name} {_kind(row)}"
            )
        source = payload.get("source")
        bag = source if isinstance(source, dict) else {}
        transaction = payload.get("transaction")
        cdc = {
            "op": op,
            "source": None if source is None else text_of(source),
            "ts": _instant(payload.get("ts_ms")),
            "pos": position(bag),
            "snapshot": _text(bag.get("snapshot")),
            "transaction": None if transaction is None else text_of(transaction),
        }
        return self._row(row, field_schemas(schema).get(name), cdc, name)

    def _flat(self, schema: Any, payload: dict[str, Any]) -> dict[str, Any]:
        if self._is_bookkeeping(schema, payload):
            raise JsonFault("skip", "no change of a row")
        meta = {key.removeprefix(META): item for key, item in payload.items() if key.startswith(META)}
        bag = {**meta, **{k.removeprefix("source_"): v for k, v in meta.items() if k.startswith("source_")}}
        op = "d" if _text(meta.get("deleted")) == "true" else meta.get("op") or "u"
        self._check_of_a_row(op)
        if op not in _OPS:
            raise JsonFault("invalid_against_schema", f"no change of a row: __op {shown(op)!r}")
        prefix = "transaction_"
        transaction = {k.removeprefix(prefix): v for k, v in bag.items() if k.startswith(prefix)}
        at = meta.get("ts_ms")
        cdc = {
            "op": op,
            "source": text_of(meta) if meta else None,
            "ts": _instant(meta.get("source_ts_ms") if at is None else at),
            "pos": position(bag),
            "snapshot": _text(bag.get("snapshot")),
            "transaction": text_of(transaction) if transaction else None,
        }
        row = {key: item for key, item in payload.items() if not key.startswith(META)}
        return self._row(row, schema, cdc, "")

    def _check_of_a_row(self, op: Any) -> None:
        if op == "m":
            raise JsonFault("skip", "no change of a row")
        if op == "t" and not self.truncates:
            raise JsonFault("truncate", "no change of a row")

    def _is_bookkeeping(self, schema: Any, payload: dict[str, Any]) -> bool:
        """A record of a heartbeat, transaction or schema-change topic: by its schema's name, else by its fields."""
        name = str(schema.get("name")) if isinstance(schema, dict) else ""
        if name:
            return name.startswith("io.debezium.") and name.rpartition(".")[2] in _BOOKKEEPING
        if self.envelope == "debezium_flat" and any(prop.name in payload for prop in self.root.properties):
            return False
        heartbeat = "ts_ms" in payload and payload.keys() <= _TIMES
        transaction = payload.get("status") in ("BEGIN", "END") and {"id", "event_count"} <= payload.keys()
        change = "source" in payload and ("ddl" in payload or "tableChanges" in payload)
        return heartbeat or transaction or change

    def _row(self, row: Any, schema: Any, cdc: dict[str, Any], name: str) -> dict[str, Any]:
        if row is None:
            return {CDC: cdc}
        if self.whole:
            return {WHOLE: row, CDC: cdc}
        if not isinstance(row, dict):
            raise JsonFault("type_mismatch", "the row is no object").under(name)
        if CDC in row:
            fault = JsonFault("type_mismatch", "the name is reserved for the change", f"/{CDC}")
            raise fault.under(name) if name else fault
        return {**_columns(row, schema, self.root), CDC: cdc}


class Keys:
    """Takes the document of a Kafka key to the columns of `root`.

    Called with a document it raises JsonFault where it is not of their shape.
    """

    def __init__(self, root: Object, *, certain: bool) -> None:
        self.root = root
        self.certain = certain

    def __call__(self, document: Any) -> dict[str, Any]:
        """The columns of a parsed key."""
        schema, payload = opened(document)
        names = [prop.name for prop in self.root.properties]
        if not isinstance(payload, dict):
            if not self.certain:
                return {}
            if len(names) != 1:
                raise JsonFault("type_mismatch", f"one value where {', '.join(names)} belong")
            return {names[0]: meant(payload, schema, self.root.properties[0].node)}
        if self.certain and len(names) == len(payload) == 1:
            (only,) = payload
            return {
                names[0]: meant(payload[only], field_schemas(schema).get(only), self.root.properties[0].node)
            }
        missing = [name for name in names if name not in payload]
        if missing and self.certain:
            raise JsonFault("type_mismatch", f"the key has no {', '.join(missing)}")
        return _columns({name: payload[name] for name in names if name in payload}, schema, self.root)


def position(bag: dict[str, Any]) -> str | None:
    """The place in the database's log: numbers padded to twenty digits, parts with colons between them.

    A file without a name is none: so MySQL's snapshots say that they have no place.
    """
    if "lsn" in bag:
        return _padded(bag["lsn"])
    if "change_lsn" in bag:
        parts = [bag.get("commit_lsn"), bag["change_lsn"], _padded(bag.get("event_serial_no"))]
    elif _text(bag.get("file")) and "pos" in bag:
        parts = [bag["file"], _padded(bag["pos"]), _padded(bag.get("row"))]
    else:
        return _padded(bag.get("scn"))
    return ":".join(told for part in parts if (told := _text(part)) is not None) or None


def _columns(row: dict[str, Any], schema: Any, root: Object) -> dict[str, Any]:
    nodes: dict[str, Node] = {prop.name: prop.node for prop in root.properties}
    schemas, found = field_schemas(schema), {}
    for name, item in row.items():
        try:
            known = nodes.get(name)
            found[name] = item if known is None else meant(item, schemas.get(name), known)
        except JsonFault as fault:
            raise fault.under(name) from None
    return found


def _instant(millis: Any) -> str | None:
    if millis is None:
        return None
    if type(millis) is not int:
        raise JsonFault("type_mismatch", "no integer where ts_ms belongs", "/ts_ms")
    return str(meant(millis, {"name": "org.apache.kafka.connect.data.Timestamp"}, Leaf("timestamptz")))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(text_of(value))


def _padded(number: Any) -> str | None:
    text = _text(number)
    return None if text is None else text.rjust(_DIGITS, "0")


def _kind(row: Any) -> str:
    return "NULL" if row is None else "present"
