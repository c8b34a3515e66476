package tidemark.protobuf;

import tidemark.decode.Fault;
import tidemark.decode.Record;

/** A field that holds one value. */
final class Single extends Field {
  enum Presence {
    DEFAULTED,
    OPTIONAL,
    REQUIRED
  }

  private final Value value;
  private final Presence presence;
  private final int[] otherIndexes;
  private final int[] otherOrdinals;

  /** `others` have at most one value together with this one. */
  Single(int index, int ordinal, int number, Value value, Presence presence, int[][] others) {
    super(index, ordinal, number);
    this.value = value;
    this.presence = presence;
    this.otherIndexes = others[0];
    this.otherOrdinals = others[1];
  }

  @Override
  int[] tags() {
    return new int[] {number << 3 | value.wireType};
  }

  @Override
  void read(Input in, int tag, Record row, Object[] open) {
    if (value.isMessage() && !row.isNullAt(ordinal)) {
      throw Fault.INVALID;
    }
    value.read(in, row, ordinal);
    for (int other : otherOrdinals) {
      row.setNullAt(other);
    }
  }

  @Override
  void finish(Record row, Object[] open) {
    if (presence != Presence.OPTIONAL && row.isNullAt(ordinal)) {
      if (presence == Presence.REQUIRED) {
        throw Fault.INVALID;
      }
      value.store(value.unset(), row, ordinal);
    }
  }

  @Override
  void parse(Input in, int tag, Tree tree, int depth) {
    tree.parts[index] = value.parsed(in, tree.parts[index], depth);
    for (int other : otherIndexes) {
      tree.parts[other] = null;
    }
  }

  @Override
  boolean isComplete(Object part) {
    return part == null ? presence != Presence.REQUIRED : value.isComplete(part);
  }

  @Override
  void check(Object part) {
    if (part != null) {
      value.check(part);
    }
  }

  @Override
  void store(Object part, Record row) {
    if (part != null) {
      value.store(part, row, ordinal);
    } else if (presence == Presence.DEFAULTED) {
      value.store(value.unset(), row, ordinal);
    }
  }
}
