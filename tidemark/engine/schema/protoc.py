"""The .proto texts of a registry to descriptors, by protobuf's own compiler (the wheel grpcio-tools)."""

import subprocess
import sys
from functools import cache, lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tidemark.domain.errors import SchemaUnsupported

MAIN = "tidemark_value.proto"
TIMEOUT = 60


@lru_cache(maxsize=1024)
def compile_proto(text: str, imports: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A serialized FileDescriptorSet with comments, dependencies first; registered texts never change.

    `imports` are (name, text) of the files that it imports; google/protobuf, google/type and confluent need not be
    among them.
    Raises SchemaUnsupported with the compiler's words.
    """
    with TemporaryDirectory(prefix="tidemark-proto-") as scratch:
        folder = Path(scratch, "in")
        for name, content in (*imports, (MAIN, text)):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise SchemaUnsupported(name, "an import must lie beside the schema")
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
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
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        if done.returncode:
            lines = [line for line in done.stderr.replace(f"{folder}/", "").splitlines() if ".proto:" in line]
            raise SchemaUnsupported("", f"protoc: {'; '.join(lines) or done.stderr.strip()}")
        return out.read_bytes()


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
