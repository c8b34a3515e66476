package tidemark.protobuf;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import tidemark.decode.Fault;

/** The bytes of one value in Protobuf's encoding; whatever runs beyond the end of the message being read is a Fault. */
final class Input {
  static final int VARINT = 0;
  static final int BYTES_8 = 1;
  static final int SIZED = 2;
  static final int BYTES_4 = 5;
  private static final int GROUP = 3;
  private static final int GROUP_END = 4;

  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int MOST = 10;
  private static final int MOST_OF_TAG = 5;

  final byte[] bytes;
  private int at;
  private int end;

  Input(byte[] bytes, int from) {
    this.bytes = bytes;
    this.at = from;
    this.end = bytes.length;
  }

  boolean hasMore() {
    return at < end;
  }

  /** Goes into the part whose size comes next; `close` wants what this gives. */
  int open() {
    int size = size();
    int outer = end;
    end = at + size;
    return outer;
  }

  void close(int outer) {
    end = outer;
  }

  /** Moves behind `size` bytes and gives where they begin. */
  int take(int size) {
    int from = at;
    if (size > end - from) {
      throw Fault.UNDECODABLE;
    }
    at = from + size;
    return from;
  }

  int size() {
    long size = varint();
    if (size < 0 || size > end - at) {
      throw Fault.UNDECODABLE;
    }
    return (int) size;
  }

  long varint() {
    int place = at;
    if (place < end) {
      byte only = bytes[place];
      if (only >= 0) {
        at = place + 1;
        return only;
      }
    }
    return variable(MOST);
  }

  /** Field number and wire type, 32 bits without sign. */
  int tag() {
    int place = at;
    if (place < end) {
      byte only = bytes[place];
      if (only >= 0) {
        at = place + 1;
        return only;
      }
    }
    long tag = variable(MOST_OF_TAG);
    if (tag >>> Integer.SIZE != 0) {
      throw Fault.UNDECODABLE;
    }
    return (int) tag;
  }

  /** Of at most so many bytes; what the last of ten has beyond 64 bits is not looked at. */
  private long variable(int most) {
    byte[] from = bytes;
    long value = 0;
    int place = at;
    int last = Math.min(end, place + most);
    for (int shift = 0; place < last; shift += 7) {
      byte next = from[place++];
      value |= (next & 0x7FL) << shift;
      if (next >= 0) {
        at = place;
        return value;
      }
    }
    throw Fault.UNDECODABLE;
  }

  int fixed32() {
    return (int) INT.get(bytes, take(Integer.BYTES));
  }

  long fixed64() {
    return (long) LONG.get(bytes, take(Long.BYTES));
  }

  /** Behind the value of a field that the schema does not have; `depth` levels may be in it. */
  void skip(int tag, int depth) {
    if (tag >>> 3 == 0) {
      throw Fault.UNDECODABLE;
    }
    switch (tag & 7) {
      case VARINT:
        varint();
        return;
      case BYTES_8:
        take(Long.BYTES);
        return;
      case SIZED:
        take(size());
        return;
      case GROUP:
        skipGroup(tag >>> 3, depth);
        return;
      case BYTES_4:
        take(Integer.BYTES);
        return;
      default:
        throw Fault.UNDECODABLE;
    }
  }

  private void skipGroup(int number, int depth) {
    if (depth == 0) {
      throw Fault.UNDECODABLE;
    }
    int tag = tag();
    for (; (tag & 7) != GROUP_END; tag = tag()) {
      skip(tag, depth - 1);
    }
    if (tag >>> 3 != number) {
      throw Fault.UNDECODABLE;
    }
  }
}
