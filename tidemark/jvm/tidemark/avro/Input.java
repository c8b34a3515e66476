package tidemark.avro;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** The bytes of one value in Avro's binary encoding; whatever runs beyond their end is a Malformed. */
final class Input {
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int INT_BYTES = 5;
  private static final int LONG_BYTES = 10;

  final byte[] bytes;
  private int at;

  Input(byte[] bytes) {
    this.bytes = bytes;
  }

  /** Moves behind `size` bytes and gives where they begin. */
  int take(long size) {
    int from = at;
    if (size < 0 || size > bytes.length - from) {
      throw Malformed.INSTANCE;
    }
    at = from + (int) size;
    return from;
  }

  /** The bytes from here on, and of `behind` as many as are left out of its own length. */
  byte[] upTo(byte[] behind) {
    int left = bytes.length - at;
    if (left == 0) {
      return behind;
    }
    byte[] found = java.util.Arrays.copyOfRange(bytes, at, at + behind.length);
    if (left < behind.length) {
      System.arraycopy(behind, 0, found, left, behind.length - left);
    }
    return found;
  }

  byte[] copy(long size) {
    int from = take(size);
    return java.util.Arrays.copyOfRange(bytes, from, at);
  }

  boolean readBoolean() {
    return bytes[take(1)] == 1;
  }

  int readInt() {
    return (int) variable(INT_BYTES);
  }

  long readLong() {
    return variable(LONG_BYTES);
  }

  /** A zigzag number of at most so many bytes; what its last byte has beyond the number's width is not looked at. */
  private long variable(int most) {
    byte[] from = bytes;
    long value = 0;
    int place = at;
    int last = Math.min(from.length, place + most);
    for (int shift = 0; place < last; shift += 7) {
      byte next = from[place++];
      value |= (next & 0x7FL) << shift;
      if (next >= 0) {
        at = place;
        if (most == INT_BYTES) {
          int number = (int) value;
          return (number >>> 1) ^ -(number & 1);
        }
        return (value >>> 1) ^ -(value & 1);
      }
    }
    throw Malformed.INSTANCE;
  }

  float readFloat() {
    return Float.intBitsToFloat((int) INT.get(bytes, take(Float.BYTES)));
  }

  double readDouble() {
    return Double.longBitsToDouble((long) LONG.get(bytes, take(Double.BYTES)));
  }
}
