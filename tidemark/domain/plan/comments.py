"""Comments of columns: what the writers' schemas and the contract say of each, and where a table says otherwise."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.partitioning import as_noted, path_of
from tidemark.domain.columns.types import ColumnType, Field, ListType, MapType, Struct
from tidemark.domain.config.contract import ColumnNote
from tidemark.domain.plan.schema_plan import Change, WriterColumns
from tidemark.domain.suggest import nearest

Comments = Mapping[str, str]
"""By path `as_noted`."""


def wanted_comments(writers: Iterable[WriterColumns], notes: Mapping[str, ColumnNote]) -> Comments:
    """The contract's description, else the doc of the newest writer that has one."""
    found: dict[str, str] = {}
    for writer in sorted(writers, key=lambda w: w.age):
        found |= {as_noted(path): field.doc for path, field in fields_of(writer.columns) if field.doc}
    return {**found, **described(notes)}


def described(notes: Mapping[str, ColumnNote]) -> Comments:
    """What the contract itself says of columns."""
    return {as_noted(path_of(name)): note.description for name, note in notes.items() if note.description}


def lost_notes(columns: Struct, notes: Mapping[str, ColumnNote]) -> list[str]:
    """Words for each note that is about no column of `columns`, at any depth; with the nearest one."""
    paths = [path for path, _ in fields_of(columns)]
    known, names = set(map(as_noted, paths)), [".".join(path) for path in paths]
    return [
        f"columns: there is no column {name}{f' (did you mean {near}?)' if near else ''}; "
        "its tags protect nothing and its description is shown nowhere"
        for name in notes
        if as_noted(path_of(name)) not in known
        for near in [nearest(name, names)]
    ]


def comment_changes(columns: Struct, wanted: Comments) -> Iterator[Change]:
    """A change for every column whose comment differs; a comment that nobody wants any more stays.

    So does that of what is in a map's key: Iceberg lets no key be altered.
    """
    for path, field in fields_of(columns, keys=False):
        text = wanted.get(as_noted(path))
        if text and text != field.doc:
            yield Change(
                "comment",
                path,
                field.doc or None,
                text,
                "apply",
                "as the schema or the contract describes it",
            )


def commented(kind: ColumnType, wanted: Comments, at: Path = ()) -> ColumnType:
    """`kind`, which stands at `at`, with the wanted comments on every field in it."""
    match kind:
        case Struct(fields):
            return Struct(
                tuple(
                    replace(f, type=commented(f.type, wanted, here), doc=wanted.get(as_noted(here)) or f.doc)
                    for f in fields
                    for here in [(*at, f.name)]
                )
            )
        case ListType(element):
            return ListType(commented(element, wanted, (*at, "element")))
        case MapType(key, value):
            return MapType(commented(key, wanted, (*at, "key")), commented(value, wanted, (*at, "value")))
    return kind


def fields_of(kind: ColumnType, at: Path = (), *, keys: bool = True) -> Iterator[tuple[Path, Field]]:
    """Every field of structs at any depth, with its path; `keys`: those in the keys of maps too."""
    match kind:
        case Struct(fields):
            for field in fields:
                yield (*at, field.name), field
                yield from fields_of(field.type, (*at, field.name), keys=keys)
        case ListType(element):
            yield from fields_of(element, (*at, "element"), keys=keys)
        case MapType(key, value):
            if keys:
                yield from fields_of(key, (*at, "key"))
            yield from fields_of(value, (*at, "value"), keys=keys)
