package tidemark.protobuf;

import tidemark.decode.Record;

/**
 * What stands in one place: of a field, an item, a key.
 *
 * <p>It is read twofold: at once, for a column, which throws whatever where anything is out of the ordinary; and as
 * protobuf's own decoder does it, to a Tree and from there to the column, for the cause of a fault and all that may be
 * said in more than one way.
 */
abstract class Value {
  final int wireType;

  Value(int wireType) {
    this.wireType = wireType;
  }

  /** For a column, at once. */
  abstract Object read(Input in);

  void read(Input in, Record row, int ordinal) {
    row.update(ordinal, read(in));
  }

  /** For a Tree; `earlier` is what the place holds, which a message adds to. */
  abstract Object parsed(Input in, Object earlier, int depth);

  /** What a Tree holds where nothing was said, and something has to be. */
  abstract Object unset();

  boolean isMessage() {
    return false;
  }

  /** Whether all that is required is there. */
  boolean isComplete(Object parsed) {
    return true;
  }

  /**
   * Of what a Tree holds.
   *
   * @throws Fault the first one
   */
  void check(Object parsed) {}

  /** What a Tree holds, for a column. */
  abstract Object object(Object parsed);

  void store(Object parsed, Record row, int ordinal) {
    row.update(ordinal, object(parsed));
  }
}
