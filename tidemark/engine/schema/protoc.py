"""The .proto texts of a registry to descriptors, by protobuf's own compiler (the wheel grpcio-tools)."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from errno import EEXIST, EILSEQ, EINVAL, EISDIR, ENAMETOOLONG, ENOTDIR
from functools import cache, lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from tidemark.domain.errors import SchemaUnsupported

MAIN = "tidemark_value.proto"
TIMEOUT = 60
_ENTRY = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?P<entry>\boption\s+map_entry\s*=\s*true\s*;)""",
    re.DOTALL,
)
"""An entry of a map that is spelled as a message; comments and strings, in which the same words say nothing."""
_MARK = 536_870_413
"""A field number that stands for it, reserved, while protoc reads the text."""
_NO_NAME = frozenset({EEXIST, EILSEQ, EINVAL, EISDIR, ENAMETOOLONG, ENOTDIR})
"""Of a file system, where the name of a file is too long, or of a folder beside it, or none."""
_NO_KEYS = frozenset(
    {
        FieldDescriptor.TYPE_FLOAT,
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_BYTES,
        FieldDescriptor.TYPE_ENUM,
        FieldDescriptor.TYPE_MESSAGE,
        FieldDescriptor.TYPE_GROUP,
    }
)


@lru_cache(maxsize=1024)
def compile_proto(text: str, imports: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A serialized FileDescriptorSet with comments, dependencies first; registered texts never change.

    `imports` are (name, text) of the files that it imports; google/protobuf, google/type and confluent need not be
    among them. Until the end of 2024 Confluent's serializer for Java registered a map as a repeated message with
    `option map_entry`, which protoc refuses to read (confluentinc/schema-registry#3444): it is the map that it was.
    Raises SchemaUnsupported with the compiler's words.
    """
    with TemporaryDirectory(prefix="tidemark-proto-") as scratch:
        folder = Path(scratch, "in")
        for name, content in (*imports, (MAIN, text)):
            _write(folder, name, _ENTRY.sub(_marked, content))
        out, known = Path(scratch, "out"), Path(scratch, "known")
        known.write_bytes(_confluent())
        command = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            *(f"-I{place}" for place in (folder, *_includes())),
            f"--descriptor_set_in={known}",
        ]
        flags = ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}", MAIN]
        try:
            done = subprocess.run(
                [*command, *flags], capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise SchemaUnsupported("", f"protoc did not end within {TIMEOUT} seconds") from None
        if done.returncode:
            lines = [line for line in done.stderr.replace(f"{folder}/", "").splitlines() if ".proto:" in line]
            raise SchemaUnsupported("", f"protoc: {'; '.join(lines) or done.stderr.strip()}")
        return _with_maps(out.read_bytes())


def _write(folder: Path, name: str, content: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SchemaUnsupported(name, "an import must lie beside the schema")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_NAME:
            raise
        raise SchemaUnsupported("", f"no file can be named as the import {name!a:.300}") from None


def _marked(found: re.Match[str]) -> str:
    return f"reserved {_MARK};" if found["entry"] else found[0]


def _with_maps(descriptors: bytes) -> bytes:
    """The same, the messages that are marked being entries of maps again."""
    files = FileDescriptorSet.FromString(descriptors)
    messages = (each for file in files.file for each in _all(file.message_type))
    entries = [each for each in messages if any(one.start == _MARK for one in each.reserved_range)]
    for entry in entries:
        shape = [(field.name, field.number) for field in entry.field]
        if shape != [("key", 1), ("value", 2)] or entry.field[0].type in _NO_KEYS:
            raise SchemaUnsupported("", f"message {entry.name} says map_entry, and is no entry of a map")
        del entry.reserved_range[:]
        entry.options.map_entry = True
    return bytes(files.SerializeToString()) if entries else descriptors


def _all(messages: Iterable[DescriptorProto]) -> Iterator[DescriptorProto]:
    for message in messages:
        yield message
        yield from _all(message.nested_type)


def _includes() -> list[Path]:
    """Folders of the files that every schema may import."""
    found = []
    for package, inside in (("grpc_tools", "_proto"), ("google.type", "../..")):
        spec = find_spec(package)
        places = (spec.submodule_search_locations or ()) if spec else ()
        found += [Path(place, inside).resolve() for place in places]
    return found


@cache
def _confluent() -> bytes:
    """A FileDescriptorSet of the files that Confluent's serializers know unregistered (confluent/meta.proto …).

    They are read from its generated code alone: the package around it asks for clients that nobody else needs.
    """
    found = FileDescriptorSet()
    package = find_spec("confluent_kafka.schema_registry")
    for place in (package.submodule_search_locations or ()) if package else ():
        generated = Path(place, "confluent")
        for path in (*generated.glob("meta_pb2.py"), *sorted(generated.glob("type/*_pb2.py"))):
            spec = spec_from_file_location(f"tidemark_{path.stem}", path)
            if spec and spec.loader:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                found.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    return bytes(found.SerializeToString())
