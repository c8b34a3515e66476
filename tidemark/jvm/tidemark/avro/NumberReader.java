package tidemark.avro;

import tidemark.decode.Record;

/** Numbers, which go into a row as their bits, and are objects in lists alone. */
final class NumberReader extends Reader {
  private enum Kind {
    BOOLEAN,
    INT,
    LONG,
    INT_AS_LONG,
    MILLIS,
    FLOAT,
    DOUBLE,
    FLOAT_AS_DOUBLE
  }

  static final Reader BOOLEAN = new NumberReader(Kind.BOOLEAN);
  static final Reader INT = new NumberReader(Kind.INT);
  static final Reader LONG = new NumberReader(Kind.LONG);

  /** An int where a long is expected: a union of both. */
  static final Reader INT_AS_LONG = new NumberReader(Kind.INT_AS_LONG);

  /** Milliseconds as Spark's microseconds. */
  static final Reader MILLIS = new NumberReader(Kind.MILLIS);

  static final Reader FLOAT = new NumberReader(Kind.FLOAT);
  static final Reader DOUBLE = new NumberReader(Kind.DOUBLE);
  static final Reader FLOAT_AS_DOUBLE = new NumberReader(Kind.FLOAT_AS_DOUBLE);

  private final Kind kind; // no class for each: which of many is called would be looked up for each value

  private NumberReader(Kind kind) {
    this.kind = kind;
  }

  @Override
  void into(Input in, Record row, int field) {
    row.number(field, bits(in));
  }

  private long bits(Input in) {
    return switch (kind) {
      case BOOLEAN -> in.readBoolean() ? 1 : 0;
      case INT, INT_AS_LONG -> in.readInt();
      case LONG -> in.readLong();
      case MILLIS -> Math.multiplyExact(in.readLong(), 1000L);
      case FLOAT -> Float.floatToRawIntBits(in.readFloat());
      case DOUBLE -> Double.doubleToRawLongBits(in.readDouble());
      case FLOAT_AS_DOUBLE -> Double.doubleToRawLongBits(in.readFloat());
    };
  }

  @Override
  Object object(Input in) {
    long bits = bits(in);
    return switch (kind) {
      case BOOLEAN -> bits != 0;
      case INT -> (int) bits;
      case LONG, INT_AS_LONG, MILLIS -> bits;
      case FLOAT -> Float.intBitsToFloat((int) bits);
      case DOUBLE, FLOAT_AS_DOUBLE -> Double.longBitsToDouble(bits);
    };
  }
}
