package tidemark.protobuf;

import java.util.Arrays;

/** Bytes. */
final class BytesValue extends Value {
  private static final byte[] NONE = {};

  BytesValue() {
    super(Input.SIZED);
  }

  @Override
  Object read(Input in) {
    int size = in.size();
    int from = in.take(size);
    return Arrays.copyOfRange(in.bytes, from, from + size);
  }

  @Override
  Object parsed(Input in, Object earlier, int depth) {
    return read(in);
  }

  @Override
  Object unset() {
    return NONE;
  }

  @Override
  Object object(Object parsed) {
    return parsed;
  }
}
