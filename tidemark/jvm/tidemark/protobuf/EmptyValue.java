package tidemark.protobuf;

import tidemark.decode.Fault;
import tidemark.decode.Record;

/** A message without fields: true where it is there. */
final class EmptyValue extends MessageValue {
  EmptyValue(Shape shape) {
    super(shape);
  }

  @Override
  Object read(Input in) {
    if (in.size() != 0) {
      throw Fault.INVALID;
    }
    return true;
  }

  @Override
  void read(Input in, Record row, int ordinal) {
    read(in);
    row.number(ordinal, 1);
  }

  @Override
  Object object(Object parsed) {
    return true;
  }

  @Override
  void store(Object parsed, Record row, int ordinal) {
    row.number(ordinal, 1);
  }
}
