"""Spark columns out of what `from_avro` made of a value: the exact conversions of docs/types.md.

Belongs here: expressions over one decoded value. They never raise: what cannot be converted is NULL, and a
check of `avro_checks` is false for it. A column that needs no conversion is passed through, one that needs
casts or new names only is cast as a whole; lambdas are left for lists and maps whose elements change shape,
for Spark interprets them.
"""

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.avro.functions import from_avro

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import (
    INT,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    widens,
)
from tidemark.domain.formats.avro_columns import branch_names, column_type, has_columns
from tidemark.domain.formats.avro_decoder import (
    AVRO_OPTIONS,
    DEFAULT,
    decoded_names,
    decoded_type,
    default_schema,
    has_number_keys,
    is_boxed,
)
from tidemark.domain.formats.avro_default import plain_default
from tidemark.domain.formats.avro_nodes import (
    NULL,
    Array,
    Entries,
    Enum,
    Fixed,
    Leaf,
    Node,
    Record,
    RecordField,
    Union,
    merged_numbers,
)
from tidemark.engine.decode.connect import document, variable_decimal, zoned_timestamp
from tidemark.engine.decode.digits import digits_of


def shaped(  # noqa: C901, PLR0911, PLR0912 - one case per kind of node
    value: Column, node: Node, target: ColumnType, reader: Node | None = None
) -> Column:
    """`value`, decoded as `node` under `decoder_schema`, as a column of the type `target` that covers it.

    Fields that the writer lacks are the default that `reader`, the newest schema, declares for them, else
    NULL; one that can only be null is not lacking, and NULL. Raises ValueError where `target` does not cover the
    node.
    """
    if is_same(node, target):
        return value
    if column_type(node) is None:
        return F.lit(None).cast(spark_ddl(target))
    if isinstance(reader, Union) and len(reader.values) == 1:
        reader = reader.values[0]
    if _is_castable(node, target):
        return value.try_cast(spark_ddl(target))
    match node, target:
        case Union(), _ if len(node.values) == 1:
            return shaped(value, node.values[0], target, reader)
        case Record(logical="variable-decimal"), _:
            return variable_decimal(value)
        case Record(), Struct() if has_columns(node):
            return F.when(
                value.isNotNull(),
                F.struct(*(record_field(value, node, f, reader).alias(f.name) for f in target.fields)),
            )
        case Record(), Primitive():
            return F.when(value.isNotNull(), F.lit(True))
        case Array(items), ListType(element):
            inner = reader.items if isinstance(reader, Array) else None
            return F.transform(value, lambda item: shaped(item, items, element, inner))
        case Entries(), MapType():
            return _map(value, node, target, reader if isinstance(reader, Entries) else None)
        case Union(), Struct():
            return F.when(value.isNotNull(), F.struct(*_branches(value, node, target, reader)))
        case Enum(_, symbols), _:
            return F.get(F.array(*(F.lit(symbol) for symbol in symbols)), value)
        case ((Leaf() | Fixed()), _):
            return _converted(value, node, target)
    raise ValueError(f"a {target} holds no {node}")


def record_field(value: Column, node: Record, field: Field, reader: Node | None) -> Column:
    """One column of a decoded record; where the writer lacks it, the reader's default, else NULL."""
    for name, found in zip(decoded_names(node), node.fields, strict=True):
        if found.name == field.name:
            inner = _reader_field(reader, field.name)
            return shaped(value[name], found.type, field.type, inner.type if inner else None)
    return _missing(value, field, reader)


def _missing(value: Column, field: Field, reader: Node | None) -> Column:
    declared = _reader_field(reader, field.name)
    if declared is None or declared.default is None or column_type(declared.type) is None:
        return F.lit(None).cast(spark_ddl(field.type))
    column = _plain_default(declared.type, declared.default, field.type)
    if column is None:
        default = from_avro(F.lit(declared.default), default_schema(declared.type), AVRO_OPTIONS)[DEFAULT]
        column = shaped(default, declared.type, field.type, declared.type)
    return F.when(value.isNotNull(), column)


def _plain_default(node: Node, encoded: bytes, target: ColumnType) -> Column | None:
    """The default as a literal, which costs the server a fraction of a decoder; None where it takes one."""
    match plain_default(node, encoded), target:
        case (None,), _:
            return F.lit(None).cast(spark_ddl(target))
        case ([],), ListType():
            return F.array().cast(spark_ddl(target))
        case ({},), MapType():
            return F.create_map().cast(spark_ddl(target))
        case (value,), Primitive() if is_same(node, target) or _is_castable(node, target):
            return F.lit(value).cast(spark_ddl(target))
    return None


def is_same(node: Node, target: ColumnType) -> bool:
    """True when the decoded value is the column as it stands."""
    return not _has_rules(node) and decoded_type(node) == bare(target)


def bare(kind: ColumnType) -> ColumnType:
    """The type without comments and nullability, for comparing."""
    match kind:
        case Struct(fields):
            return Struct(tuple(Field(field.name, bare(field.type)) for field in fields))
        case ListType(element):
            return ListType(bare(element))
        case MapType(key, value):
            return MapType(bare(key), bare(value))
    return kind


def _has_rules(node: Node) -> bool:
    """True where equal types do not mean equal values."""
    match node:
        case Leaf(_, "time-millis"):
            return True
        case Record(_, fields):
            return any(_has_rules(field.type) for field in fields)
        case Array(items):
            return _has_rules(items)
        case Entries():
            return True
        case Union(branches):
            return any(_has_rules(branch) for branch in branches)
    return False


def _is_castable(node: Node, target: ColumnType) -> bool:  # noqa: PLR0911 - one case per kind of node
    """True when a CAST, which goes by position, gives exactly the target: same fields in the same order."""
    match node, target:
        case Leaf("int", ""), Primitive():
            return widens(INT, target)
        case ((Leaf() | Fixed()), Primitive()):
            return not _has_rules(node) and node != NULL and widens(decoded_type(node), target)
        case Enum(), _:
            return is_same(node, target)
        case Record(_, fields), Struct():
            same_names = [field.name for field in fields] == [field.name for field in target.fields]
            pairs = zip(fields, target.fields, strict=False)
            return same_names and all(_is_castable(field.type, other.type) for field, other in pairs)
        case Array(items), ListType(element):
            return _is_castable(items, element)
        case Union(), _ if len(node.values) == 1:
            return _is_castable(node.values[0], target)
        case Union(), Primitive():
            return merged_numbers(node) is not None and widens(decoded_type(node), target)
        case Union(), Struct():
            return _is_castable_union(node, target)
    return False


def _is_castable_union(node: Union, target: Struct) -> bool:
    decoded = decoded_type(node)
    plain = isinstance(decoded, Struct) and len(decoded.fields) == len(node.values) == len(target.fields)
    same_names = branch_names(node) == tuple(field.name for field in target.fields)
    pairs = zip(node.values, target.fields, strict=False)
    return plain and same_names and all(not is_boxed(b) and _is_castable(b, f.type) for b, f in pairs)


def _branches(value: Column, node: Union, target: Struct, reader: Node | None) -> Iterator[Column]:
    found = dict(zip(branch_names(node), enumerate(node.values), strict=True))
    inner = dict(zip(branch_names(reader), reader.values, strict=True)) if isinstance(reader, Union) else {}
    for field in target.fields:
        if field.name in found:
            position, branch = found[field.name]
            part = member(value, position, branch)
            yield shaped(part, branch, field.type, inner.get(field.name)).alias(field.name)
        else:
            yield F.lit(None).cast(spark_ddl(field.type)).alias(field.name)


def member(value: Column, position: int, branch: Node) -> Column:
    """The value of a union's branch; `position` counts the branches that are not null."""
    member = value[f"member{position}"]
    return member["box"] if is_boxed(branch) else member


def _map(value: Column, node: Entries, target: MapType, reader: Entries | None) -> Column:
    pairs = value
    if _is_castable(node.key, target.key) and _is_castable(node.value, target.value):
        pair = Struct((Field("key", target.key), Field("value", target.value)))
        pairs = value.try_cast(spark_ddl(ListType(pair)))
    elif not (is_same(node.key, target.key) and is_same(node.value, target.value)):
        pairs = F.transform(
            value,
            lambda pair: F.struct(
                shaped(pair["key"], node.key, target.key).alias("key"),
                shaped(pair["value"], node.value, target.value, reader.value if reader else None).alias(
                    "value"
                ),
            ),
        )
    sound = keys_are_unique(value, node)
    if not is_same(node.key, target.key):
        sound &= ~F.exists(value["key"], lambda key: shaped(key, node.key, target.key).isNull())
    return F.when(sound, F.map_from_entries(pairs))


def keys_are_unique(entries: Column, node: Entries) -> Column:
    """False for a key twice or NULL: Spark raises on either, or drops a value by its session's policy.

    0.0 and -0.0 are one key for it.
    """
    keys = entries["key"]
    zeros_are_one = F.transform(keys, lambda key: key + F.lit(0.0)) if has_number_keys(node) else keys
    return (F.size(F.array_distinct(zeros_are_one)) == F.size(keys)) & ~F.exists(
        keys, lambda key: key.isNull()
    )


def _converted(  # noqa: PLR0911 - one return per logical type
    value: Column, node: Leaf | Fixed, target: ColumnType
) -> Column:
    match node.logical:
        case "time-millis":
            return value.try_cast("int").cast("bigint") * 1000
        case "date":
            return F.date_from_unix_date(value.try_cast("int"))
        case "decimal" if isinstance(target, Primitive) and target.decimal:
            return value.try_cast(spark_ddl(target))
        case "decimal":
            return digits_of(value, node.scale)
        case "uuid":
            return _uuid(value)
        case "zoned-timestamp":
            return zoned_timestamp(value)
        case "document":
            return document(value)
        case "duration":
            return F.when(value.isNotNull(), _duration(value))
    raise ValueError(f"a {target} holds no {node}")


def _uuid(value: Column) -> Column:
    digits = F.lower(F.hex(value))
    parts = [F.substring(digits, start, size) for start, size in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    return F.concat(
        *(part for pair in zip(parts, [F.lit("-")] * 4, strict=False) for part in pair), parts[-1]
    )


def _duration(value: Column) -> Column:
    """Three unsigned numbers of four bytes, little-endian."""
    digits = F.hex(value)
    numbers = []
    for position, name in enumerate(("months", "days", "millis")):
        octets = [F.substring(digits, 8 * position + 2 * octet + 1, 2) for octet in (3, 2, 1, 0)]
        numbers.append(F.conv(F.concat(*octets), 16, 10).cast("bigint").alias(name))
    return F.struct(*numbers)


def _reader_field(reader: Node | None, name: str) -> RecordField | None:
    if isinstance(reader, Union):
        reader = _only_branch(reader)
    if not isinstance(reader, Record):
        return None
    return next((field for field in reader.fields if field.name == name), None)


def _only_branch(reader: Node | None) -> Node | None:
    if isinstance(reader, Union):
        return reader.values[0] if len(reader.values) == 1 else None
    return reader
