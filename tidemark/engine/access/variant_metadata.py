"""Tables with VARIANT columns for PyIceberg 0.12, which refuses to load their metadata.

Belongs here: reading table metadata, nothing else. Where PyIceberg gets it, from a metadata file or in an answer of a
REST catalog, the type `variant` is renamed to one that it knows and that no table of ours has: a geometry whose
reference system is named `variant`. `iceberg_types` turns it back. PyIceberg never writes such a schema: it does not
write format 3 itself, and schema changes of these tables go through Spark (`alter`).
"""

import gzip
import io
import json
from typing import Any, cast

from pyiceberg.catalog import Catalog
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, load_file_io
from pyiceberg.typedef import EMPTY_DICT, Properties

VARIANT = "variant"
STAND_IN = "geometry('variant')"
FILE_IO = "tidemark.engine.access.variant_metadata.TolerantFileIO"
_SIGN = b'"variant"'
_METADATA = ".metadata.json"
_TYPED = ("type", "element", "key", "value")
"""Where a type stands in the JSON of a schema."""


def tolerated(content: bytes) -> bytes:
    """JSON of table metadata, or an answer that holds it, with every `variant` renamed; other bytes as they came."""
    if _SIGN not in content:
        return content
    try:
        found = json.loads(content)
    except ValueError:
        return content
    metadata = found.get("metadata", found) if isinstance(found, dict) else {}
    for schema in (metadata.get("schema"), *(metadata.get("schemas") or ())):
        _rename(schema)
    return json.dumps(found).encode()


def tolerant(catalog: Catalog) -> Catalog:
    """The same catalog, whose answers may hold VARIANT columns where it is a REST catalog."""
    session = getattr(catalog, "_session", None)
    if session is not None:
        session.hooks["response"].append(_answered)
    return catalog


def _rename(schema: Any) -> None:
    if isinstance(schema, list):
        for part in schema:
            _rename(part)
    elif isinstance(schema, dict):
        for place in _TYPED:
            if schema.get(place) == VARIANT:
                schema[place] = STAND_IN
        for part in schema.values():
            if isinstance(part, list | dict):
                _rename(part)


def _answered(response: Any, *_: Any, **__: Any) -> Any:
    content = tolerated(response.content)
    if content is not response.content:
        response._content = content  # noqa: SLF001 - a response hook has no other way to change what was answered
    return response


class _Metadata(InputFile):
    """A metadata file as PyIceberg can read it."""

    def __init__(self, found: InputFile) -> None:
        super().__init__(found.location)
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def exists(self) -> bool:
        """Whether the file is there."""
        return self._found.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's own signature
        """Its bytes, compressed where its name says so."""
        with self._found.open(seekable) as stream:
            content = stream.read()
        if self.location.endswith(".gz.metadata.json"):
            content = gzip.compress(tolerated(gzip.decompress(content)), compresslevel=1)
        else:
            content = tolerated(content)
        return cast("InputStream", io.BytesIO(content))


class TolerantFileIO(FileIO):
    """PyIceberg's own file access, chosen by the location as ever (property `py-io-impl`)."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._plain = {key: value for key, value in properties.items() if key != PY_IO_IMPL}
        self._by_scheme: dict[str, FileIO] = {}

    def _at(self, location: str) -> FileIO:
        scheme = location.partition("://")[0] if "://" in location else ""
        if scheme not in self._by_scheme:
            self._by_scheme[scheme] = load_file_io(self._plain, location)
        return self._by_scheme[scheme]

    def new_input(self, location: str) -> InputFile:
        """The file at a location."""
        found = self._at(location).new_input(location)
        return _Metadata(found) if location.endswith(_METADATA) else found

    def new_output(self, location: str) -> OutputFile:
        """The file at a location, to be written."""
        return self._at(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        name = location if isinstance(location, str) else location.location
        self._at(name).delete(name)
