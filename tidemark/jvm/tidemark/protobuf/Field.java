package tidemark.protobuf;

import tidemark.decode.Record;

/** A field of a message: its place in a Tree, and in a row. */
abstract class Field {
  final int index;
  final int ordinal;
  final int number;

  Field(int index, int ordinal, int number) {
    this.index = index;
    this.ordinal = ordinal;
    this.number = number;
  }

  /** Of the field as it may be written. */
  abstract int[] tags();

  /** Into a row at once; `open` has, by index, what is being collected. */
  abstract void read(Input in, int tag, Record row, Object[] open);

  /** Fills in a row what was not said; throws where it has to be. */
  abstract void finish(Record row, Object[] open);

  /** Into a Tree. */
  abstract void parse(Input in, int tag, Tree tree, int depth);

  abstract boolean isComplete(Object part);

  abstract void check(Object part);

  abstract void store(Object part, Record row);
}
