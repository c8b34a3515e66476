package tidemark.avro;

/** Numbers, which go into a row as their bits. */
abstract class NumberReader extends Reader {
  abstract long bits(Input in);

  @Override
  final void into(Input in, Record row, int field) {
    row.number(field, bits(in));
  }

  static final Reader BOOLEAN =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return in.readBoolean() ? 1 : 0;
        }

        @Override
        Object object(Input in) {
          return in.readBoolean();
        }
      };

  static final Reader INT =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return in.readInt();
        }

        @Override
        Object object(Input in) {
          return in.readInt();
        }
      };

  static final Reader LONG =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return in.readLong();
        }

        @Override
        Object object(Input in) {
          return in.readLong();
        }
      };

  /** An int where a long is expected: a union of both. */
  static final Reader INT_AS_LONG =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return in.readInt();
        }

        @Override
        Object object(Input in) {
          return (long) in.readInt();
        }
      };

  /** Milliseconds as Spark's microseconds. */
  static final Reader MILLIS =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return Math.multiplyExact(in.readLong(), 1000L);
        }

        @Override
        Object object(Input in) {
          return bits(in);
        }
      };

  static final Reader FLOAT =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return Float.floatToRawIntBits(in.readFloat());
        }

        @Override
        Object object(Input in) {
          return in.readFloat();
        }
      };

  static final Reader DOUBLE =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return Double.doubleToRawLongBits(in.readDouble());
        }

        @Override
        Object object(Input in) {
          return in.readDouble();
        }
      };

  static final Reader FLOAT_AS_DOUBLE =
      new NumberReader() {
        @Override
        long bits(Input in) {
          return Double.doubleToRawLongBits(in.readFloat());
        }

        @Override
        Object object(Input in) {
          return (double) in.readFloat();
        }
      };
}
