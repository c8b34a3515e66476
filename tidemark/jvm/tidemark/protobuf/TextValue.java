package tidemark.protobuf;

import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Fault;
import tidemark.decode.Utf8;

/** Text, where it lies. */
final class TextValue extends Value {
  private final boolean isStrict;

  /** `isStrict`: protobuf itself refuses what is no UTF-8; else that is told where all else is well. */
  TextValue(boolean isStrict) {
    super(Input.SIZED);
    this.isStrict = isStrict;
  }

  private static UTF8String text(Input in) {
    int size = in.size();
    return UTF8String.fromBytes(in.bytes, in.take(size), size);
  }

  @Override
  Object read(Input in) {
    return object(text(in));
  }

  @Override
  Object parsed(Input in, Object earlier, int depth) {
    UTF8String text = text(in);
    return isStrict ? object(text) : text;
  }

  @Override
  Object unset() {
    return UTF8String.EMPTY_UTF8;
  }

  @Override
  Object object(Object parsed) {
    if (!Utf8.isValid((UTF8String) parsed)) {
      throw Fault.UNDECODABLE;
    }
    return parsed;
  }
}
