package tidemark.protobuf;

/** Protobuf's types of numbers: how their bytes are read, as 64 bits, and which of them are the type's. */
enum Kind {
  BOOL(Input.VARINT),
  INT32(Input.VARINT),
  SINT32(Input.VARINT),
  UINT32(Input.VARINT),
  INT64(Input.VARINT),
  SINT64(Input.VARINT),
  UINT64(Input.VARINT),
  ENUM(Input.VARINT),
  FIXED32(Input.BYTES_4),
  SFIXED32(Input.BYTES_4),
  FLOAT(Input.BYTES_4),
  FIXED64(Input.BYTES_8),
  SFIXED64(Input.BYTES_8),
  DOUBLE(Input.BYTES_8);

  final int wireType;

  Kind(int wireType) {
    this.wireType = wireType;
  }

  long read(Input in) {
    switch (this) {
      case BOOL:
        return in.varint() == 0 ? 0 : 1;
      case SINT32:
      case SINT64:
        long zigzag = in.varint();
        return (zigzag >>> 1) ^ -(zigzag & 1);
      case FIXED32:
        return Integer.toUnsignedLong(in.fixed32());
      case SFIXED32:
      case FLOAT:
        return in.fixed32();
      case FIXED64:
      case SFIXED64:
      case DOUBLE:
        return in.fixed64();
      default:
        return in.varint();
    }
  }

  /** Protobuf itself keeps the low 32 bits of a longer number in silence. */
  boolean fits(long number) {
    switch (this) {
      case INT32:
      case SINT32:
        return number == (int) number;
      case UINT32:
        return number >>> Integer.SIZE == 0;
      default:
        return true;
    }
  }
}
