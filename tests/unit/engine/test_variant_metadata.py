"""Rule: metadata with VARIANT columns can be read, and says which columns they are."""

import gzip
import json

from pyiceberg.catalog import load_catalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadataUtil

from tidemark.domain.columns.types import STRING, VARIANT, Field, ListType, MapType, Struct
from tidemark.engine.access.iceberg_types import columns_of
from tidemark.engine.access.variant_metadata import FILE_IO, TolerantFileIO, tolerant, tolerated

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "variant", "required": False, "type": "string", "doc": '"type": "variant"'},
        {"id": 2, "name": "v", "required": False, "type": "variant"},
        {
            "id": 3,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 4, "element": "variant", "element-required": False},
        },
        {
            "id": 5,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 6,
                "key": "string",
                "value-id": 7,
                "value": "variant",
                "value-required": False,
            },
        },
    ],
}
METADATA = {
    "format-version": 3,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "file:///t",
    "last-sequence-number": 0,
    "next-row-id": 0,
    "last-updated-ms": 1,
    "last-column-id": 7,
    "current-schema-id": 0,
    "schemas": [SCHEMA],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "properties": {"value": "variant"},
}
COLUMNS = Struct(
    (
        Field("variant", STRING, '"type": "variant"'),
        Field("v", VARIANT),
        Field("l", ListType(VARIANT)),
        Field("m", MapType(STRING, VARIANT)),
    )
)


def test_the_type_is_renamed_in_schemas_alone_and_read_back():
    metadata = TableMetadataUtil.parse_raw(tolerated(json.dumps(METADATA).encode()).decode())
    assert columns_of(metadata.schema()) == COLUMNS
    assert metadata.properties == {"value": "variant"}


def test_an_answer_of_a_rest_catalog_holds_it_too():
    answer = json.loads(tolerated(json.dumps({"metadata-location": "x", "metadata": METADATA}).encode()))
    assert columns_of(TableMetadataUtil.parse_raw(json.dumps(answer["metadata"])).schema()) == COLUMNS


def test_what_is_no_metadata_stays_as_it_is():
    for content in (b'{"variant": 1', b'["variant"]', b'{"name": "variant"}', b"{}"):
        assert tolerated(content).replace(b" ", b"") == content.replace(b" ", b"")


def test_metadata_files_are_read_plain_and_compressed(tmp_path):
    plain, packed = tmp_path / "a.metadata.json", tmp_path / "b.gz.metadata.json"
    plain.write_text(json.dumps(METADATA))
    packed.write_bytes(gzip.compress(json.dumps(METADATA).encode()))
    files = load_file_io({"py-io-impl": FILE_IO}, str(tmp_path))
    assert isinstance(files, TolerantFileIO)
    for path in (plain, packed):
        found = FromInputFile.table_metadata(files.new_input(f"file://{path}"))
        assert columns_of(found.schema()) == COLUMNS


def test_other_files_are_untouched_and_a_catalog_without_answers_needs_nothing(tmp_path):
    files = TolerantFileIO()
    with files.new_output(str(tmp_path / "x")).create() as out:
        out.write(b'"variant"')
    assert files.new_input(str(tmp_path / "x")).open().read() == b'"variant"'
    files.delete(str(tmp_path / "x"))
    assert not files.new_input(str(tmp_path / "x")).exists()
    catalog = load_catalog("x", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    assert tolerant(catalog) is catalog
