"""The writer schemas of a topic, and the columns they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.evolution import first_columns
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.domain.formats.avro import Note
from tidemark.domain.formats.avro_columns import WHOLE_COLUMNS
from tidemark.domain.formats.debezium import (
    CDC,
    document_columns,
    json_documents,
)
from tidemark.domain.formats.json_columns import DOCUMENT, JsonDocuments, declared, with_variants
from tidemark.domain.formats.json_columns import columns as json_columns
from tidemark.domain.formats.json_nodes import Object
from tidemark.domain.formats.routes import NO_SKIPS, Events, Skips
from tidemark.domain.plan.contract_record import remembered
from tidemark.domain.plan.meanings import known
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.decoding import Format, Framing
from tidemark.engine.schema.event_routes import events_of, skips
from tidemark.engine.schema.message_choice import Undecided, message_of_records
from tidemark.engine.schema.subjects import read_listed, subject_of
from tidemark.engine.schema.writer import NoRows, Reading, Writer, judged, of_message, writer_of

VARIANT_FORMAT = 3
MESSAGE = "tidemark.message"
"""The table property: the Protobuf message that the table was made of, by its full name."""
FORMATS: Mapping[str, Format] = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
"""Schema types as registries name them."""


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """What may stand in the values of a topic.

    `writers` are the schemas that have exact columns, oldest version first; `unsupported` names, by id, why the
    others have none; all are of one `format`. `plain` is set for formats without a registry, `documents` beside it
    for JSON. `bookkeeping` are schemas of Debezium's own records, which are no rows; `skips` the record types of the
    topic's other tables, or of none. `deleted` are those that the registry has deleted, beside others. `message` is
    the Protobuf message of the values; `types_kept`: they are read by the `value.types` that the table was made with.
    `undecided` says why nobody can tell yet which message that is: then there are no writers.
    """

    writers: tuple[Writer, ...] = ()
    unsupported: Mapping[int, str] = field(default_factory=dict)
    plain: Struct | None = None
    documents: JsonDocuments | None = None
    format: Format = "avro"
    bookkeeping: frozenset[int] = frozenset()
    framing: Framing = "confluent"
    skips: Skips = NO_SKIPS
    deleted: frozenset[int] = frozenset()
    message: str | None = None
    types_kept: bool = False
    undecided: str = ""

    @property
    def ids(self) -> frozenset[int]:
        """Every id that the registry lists for the table's records."""
        return frozenset(w.id for w in self.writers) | frozenset(self.unsupported)

    @property
    def known(self) -> frozenset[int]:
        """Every id whose records have a place, this table or another."""
        return self.ids | frozenset(self.skips.ids)

    def wanted(self) -> Struct | None:
        """The columns of a new table; None when nothing is registered yet, or it is `undecided`."""
        if self.plain is not None:
            return self.plain
        if not self.writers:
            return Struct((CDC,)) if self.bookkeeping and not self.unsupported else None
        return first_columns([w.columns for w in self.writers])

    def properties(self) -> dict[str, str]:
        """What a new table keeps of them beside its columns."""
        return {MESSAGE: self.message} if self.message else {}

    def notes(self) -> tuple[Note, ...]:
        """What is to be told of how values are read, each once."""
        told = [note for writer in self.writers for note in writer.notes]
        return tuple(dict.fromkeys([*told, *(self.documents.notes if self.documents else ())]))

    def covered(self, table: Struct) -> dict[int, Writer]:
        """The writers whose every value `table` holds exactly, by id."""
        found = {}
        for writer in self.writers:
            try:
                if not covers(table, writer.columns):
                    found[writer.id] = writer
            except SchemaUnsupported:
                continue
        return found

    def why_uncovered(self, table: Struct, schema_id: int) -> str:
        """The reason why `table` does not hold the schema, for a person."""
        if schema_id in self.unsupported:
            return self.unsupported[schema_id]
        writer = next(w for w in self.writers if w.id == schema_id)
        try:
            differences = covers(table, writer.columns)
        except SchemaUnsupported as error:
            return str(error)
        return "; ".join(f"{d.dotted}: {d.kind} (table {d.ends[0]}, schema {d.ends[1]})" for d in differences)


def read_schemas(
    lake: Lake, contract: Contract, state: TableState | None, seen: frozenset[int] = frozenset()
) -> TopicSchemas:
    """Every writer schema that the registry lists for the table's records now; without a `state` for no table.

    `seen` are ids that records of the topic were found to carry; of several types in a topic they name the others.

    Raises:
        Outage: `registry_down`; `kafka_down` where records must say which Protobuf message a new table is of.
        Stopped: `misconfigured` when the subject holds schemas of several types, or of another than the contract says.
    """
    if contract.value.format in WHOLE_COLUMNS:
        return TopicSchemas(plain=WHOLE_COLUMNS[contract.value.format])
    if contract.value.format == "json":
        return _documents(contract, variants=has_variants(contract, state))
    listed, events = read_listed(lake, contract), events_of(contract)
    found = format_of(contract, listed.versions)
    _named_message(contract, found, listed.framing)
    asked = reading = _reading(contract, events, listed.framing, variants=has_variants(contract, state))
    if found == "protobuf":
        try:
            made_of = _made_of(lake, contract, state, listed.versions)
        except Undecided as yet:
            return TopicSchemas(format=found, framing=listed.framing, undecided=str(yet))
        asked = of_message(asked, listed.versions, contract.value.message, made_of)
        reading = _as_made(asked, contract, state, listed.versions)
    others = skips(lake, contract, listed.versions, seen, events) if events else NO_SKIPS
    held = _held(state)
    writers: dict[int, Writer] = {}
    unsupported: dict[int, str] = {}
    bookkeeping: set[int] = set()
    for version in listed.versions:
        if version.id in others.ids:
            continue
        try:
            writers[version.id] = writer_of(version, as_held(version, reading, held))
        except SchemaUnsupported as error:
            unsupported[version.id] = f"version {version.version}: {error}"
        except NoRows:
            bookkeeping.add(version.id)
    return TopicSchemas(
        writers=tuple(writers.values()),
        unsupported=unsupported,
        format=found,
        bookkeeping=frozenset(bookkeeping),
        framing=listed.framing,
        skips=others,
        deleted=frozenset(each.id for each in listed.versions if each.deleted),
        message=(reading.message or reading.first) if found == "protobuf" else None,
        types_kept=reading != asked,
    )


def _made_of(
    lake: Lake, contract: Contract, state: TableState | None, versions: Sequence[RegisteredSchema]
) -> str | None:
    """The Protobuf message that the table was made of, or is to be made of where the contract names none.

    None where the first one is it. Raises Undecided.
    """
    made_of = state.properties.get(MESSAGE) if state else None
    loaded = state is not None and state.owned and state.ledger is not None
    if made_of or loaded or contract.event or contract.value.message:
        return made_of
    return message_of_records(lake, contract, versions)


def has_variants(contract: Contract, state: TableState | None) -> bool:
    """Whether what has no single type is a VARIANT: by the contract, or the table's format, which never goes back."""
    of_table = state.shape.format_version if state else contract.format_version
    return max(of_table, contract.format_version) >= VARIANT_FORMAT


def _documents(contract: Contract, *, variants: bool) -> TopicSchemas:
    fields, envelope = contract.value.fields, contract.value.envelope
    if envelope == "none":
        documents = declared(fields) if fields else DOCUMENT
        documents = with_variants(documents) if variants else documents
        return TopicSchemas(plain=json_columns(documents), documents=documents)
    documents = json_documents(fields, envelope, truncates=contract.upsert is not None)
    return TopicSchemas(plain=document_columns(documents), documents=documents)


def format_of(contract: Contract, versions: Sequence[RegisteredSchema]) -> Format:
    """What the values are encoded in: the type of the subject's schemas.

    Raises:
        Stopped: `misconfigured` when there are several types, or another than the contract says.
    """
    subject, wanted = subject_of(contract), contract.value.format
    kinds = {version.type: version.version for version in versions}
    if len(kinds) > 1:
        listed = ", ".join(f"{kind} (version {number})" for kind, number in sorted(kinds.items()))
        raise Stopped(
            "misconfigured",
            contract.table,
            f"subject {subject} holds schemas of several types: {listed}. One topic is decoded in one way: give each "
            "type a topic and a subject of its own.",
        )
    for kind, number in kinds.items():
        if kind not in FORMATS or wanted not in {"registry", FORMATS[kind]}:
            raise Stopped(
                "misconfigured",
                contract.table,
                f"subject {subject} holds {kind} (version {number}), and the contract says format: {wanted}."
                if kind in FORMATS
                else f"subject {subject} holds {kind} (version {number}): {', '.join(FORMATS)} are supported.",
            )
        return FORMATS[kind]
    return "avro"


def _reading(contract: Contract, events: Events | None, framing: Framing, *, variants: bool) -> Reading:
    """How each schema is read; what only one schema type has is left to it."""
    return Reading(
        envelope=contract.value.envelope,
        message=contract.event,
        framing=framing,
        events=events,
        nanos=_nanos(contract.value.types),
        variants=variants,
    )


def _nanos(types: Mapping[str, str] | None) -> bool:
    return "timestamp_nanos" in (types or {})


def _as_made(
    reading: Reading, contract: Contract, state: TableState | None, versions: Sequence[RegisteredSchema]
) -> Reading:
    """By the `value.types` that the table was made with, if by those of the contract a column of it would clash."""
    if state is None:
        return reading
    types = remembered(state.properties).get("value.types", contract.value.types)
    made, columns = (
        replace(reading, nanos=_nanos(types)),
        known(state.columns or Struct(()), state.properties),
    )
    kept = made != reading and any(
        _clashes(each, reading, columns) and not _clashes(each, made, columns) for each in versions
    )
    return made if kept else reading


def as_held(version: RegisteredSchema, reading: Reading, held: Struct | None) -> Reading:
    """How a version is read for a table with the columns `held`; None for no table.

    What it has as JSON text already, because type rules or a schema said so before, stays that.
    """
    if version.type != "JSON" or held is None:
        return reading
    as_text = replace(reading, combined_as_text=True)
    text, found = judged(version, as_text), judged(version, reading)
    if not isinstance(text, Writer) or _clashes(version, as_text, held):
        return reading
    if not isinstance(text.schema.root, Object):
        alone = {field.name for field in held.fields} == {field.name for field in text.columns.fields}
        return as_text if alone else reading
    unheld = isinstance(found, SchemaUnsupported) or _clashes(version, reading, held)
    return as_text if unheld else reading


def _held(state: TableState | None) -> Struct | None:
    if state is None or state.columns is None:
        return None
    present = known(state.columns, state.properties)
    return Struct(tuple(field for field in present.fields if field.name != KAFKA_COLUMN.name))


def _clashes(version: RegisteredSchema, reading: Reading, columns: Struct) -> bool:
    found = judged(version, reading)
    try:
        lacking = covers(columns, found.columns) if isinstance(found, Writer) else ()
    except SchemaUnsupported:
        return False
    return any(each.kind == "incompatible" for each in lacking)


def _named_message(contract: Contract, found: Format, framing: Framing) -> None:
    """Raises Stopped(`misconfigured`) where nothing says which Protobuf message the values are."""
    if found == "protobuf" and framing == "bare" and not (contract.event or contract.value.message):
        raise Stopped(
            "misconfigured",
            contract.table,
            f"subject {subject_of(contract)} holds Protobuf: with schema: {contract.value.schema_mode} the contract "
            "must name the message, for nothing in a value does.",
            topic=contract.topic,
        )
