package tidemark.avro;

import tidemark.decode.Record;

import java.util.function.LongFunction;
import java.util.function.ToLongFunction;

/** Numbers, which go into a row as their bits, and are objects in lists alone. */
final class NumberReader extends Reader {
  static final Reader BOOLEAN = new NumberReader(in -> in.readBoolean() ? 1 : 0, bits -> bits != 0);
  static final Reader INT = new NumberReader(Input::readInt, bits -> (int) bits);
  static final Reader LONG = new NumberReader(Input::readLong, bits -> bits);

  /** An int where a long is expected: a union of both. */
  static final Reader INT_AS_LONG = new NumberReader(Input::readInt, bits -> bits);

  /** Milliseconds as Spark's microseconds. */
  static final Reader MILLIS =
      new NumberReader(in -> Math.multiplyExact(in.readLong(), 1000L), bits -> bits);

  static final Reader FLOAT =
      new NumberReader(
          in -> Float.floatToRawIntBits(in.readFloat()), bits -> Float.intBitsToFloat((int) bits));
  static final Reader DOUBLE =
      new NumberReader(in -> Double.doubleToRawLongBits(in.readDouble()), Double::longBitsToDouble);
  static final Reader FLOAT_AS_DOUBLE =
      new NumberReader(in -> Double.doubleToRawLongBits(in.readFloat()), Double::longBitsToDouble);

  private final ToLongFunction<Input> bits;
  private final LongFunction<Object> boxed;

  private NumberReader(ToLongFunction<Input> bits, LongFunction<Object> boxed) {
    this.bits = bits;
    this.boxed = boxed;
  }

  @Override
  void into(Input in, Record row, int field) {
    row.number(field, bits.applyAsLong(in));
  }

  @Override
  Object object(Input in) {
    return boxed.apply(bits.applyAsLong(in));
  }
}
