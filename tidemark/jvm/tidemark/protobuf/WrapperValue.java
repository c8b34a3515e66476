package tidemark.protobuf;

import tidemark.decode.Fault;
import tidemark.decode.Record;

/** A message around a scalar, so that it can be missing: its column is the scalar's. */
final class WrapperValue extends MessageValue {
  private final Value value;
  private final int tag;

  WrapperValue(Shape shape, Value value) {
    super(shape);
    this.value = value;
    this.tag = 1 << 3 | value.wireType;
  }

  @Override
  Object read(Input in) {
    int outer = in.open();
    Object found = null;
    while (in.hasMore()) {
      expect(in);
      found = value.read(in);
    }
    in.close(outer);
    return found == null ? value.object(value.unset()) : found;
  }

  @Override
  void read(Input in, Record row, int ordinal) {
    int outer = in.open();
    if (!in.hasMore()) {
      value.store(value.unset(), row, ordinal);
    }
    while (in.hasMore()) {
      expect(in);
      value.read(in, row, ordinal);
    }
    in.close(outer);
  }

  private void expect(Input in) {
    if (in.tag() != tag) {
      throw Fault.INVALID;
    }
  }

  private Object inside(Object parsed) {
    Object inside = ((Tree) parsed).parts[0];
    return inside == null ? value.unset() : inside;
  }

  @Override
  Object object(Object parsed) {
    return value.object(inside(parsed));
  }

  @Override
  void store(Object parsed, Record row, int ordinal) {
    value.store(inside(parsed), row, ordinal);
  }
}
