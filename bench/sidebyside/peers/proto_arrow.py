"""Protobuf to Arrow by hand, as a script does it: shared by the PyIceberg script and Spark's Python workers."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

KINDS = {
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
    FieldDescriptor.CPPTYPE_MESSAGE: pa.timestamp("us", "UTC"),
}


def message_class(files: bytes) -> Any:
    """The class of the message Order of a FileDescriptorSet."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def to_arrow(kind: Any, values: Sequence[bytes]) -> pa.Table:
    """One column per field; a message is a Timestamp."""
    found = [kind.FromString(value) for value in values]
    columns = {}
    for field in kind.DESCRIPTOR.fields:
        name = field.name
        read = [getattr(message, name) for message in found]
        if field.message_type:
            read = [at.seconds * 1_000_000 + at.nanos // 1000 for at in read]
        columns[name] = pa.array(read, KINDS[field.cpp_type])
    return pa.table(columns)
