package tidemark.protobuf;

import tidemark.decode.Record;

/** A message as a struct, which may have further fields. */
final class RecordValue extends MessageValue {
  private final int width;

  RecordValue(Shape shape, int width) {
    super(shape);
    this.width = width;
  }

  /** To the end of what is read. */
  Record whole(Input in) {
    Record row = new Record(width);
    shape.read(in, row);
    return row;
  }

  @Override
  Object read(Input in) {
    int outer = in.open();
    Record row = whole(in);
    in.close(outer);
    return row;
  }

  @Override
  Record object(Object parsed) {
    Record row = new Record(width);
    shape.store((Tree) parsed, row);
    return row;
  }
}
