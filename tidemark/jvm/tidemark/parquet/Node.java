package tidemark.parquet;

import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** A field of a row: it takes the row apart into its leaves, with Dremel's levels. */
abstract class Node {
  final int definition;
  final boolean optional;

  /** `definition` is the level of a value that is there. */
  Node(int definition, boolean optional) {
    this.definition = definition;
    this.optional = optional;
  }

  abstract void append(SpecializedGetters from, int ordinal, int repetition);

  /** Takes a column of the first `count` rows, none of which is part of a list. */
  void appendAll(SpecializedGetters[] rows, int count, int ordinal) {
    for (int i = 0; i < count; i++) {
      append(rows[i], ordinal, 0);
    }
  }

  /** Whether one of the first `count` rows has no value here. */
  final boolean isAbsent(SpecializedGetters[] rows, int count, int ordinal) {
    for (int i = 0; i < count && optional; i++) {
      if (rows[i].isNullAt(ordinal)) {
        return true;
      }
    }
    return false;
  }

  /** Whether none of the first `count` rows has a value here. */
  final boolean isNothing(SpecializedGetters[] rows, int count, int ordinal) {
    for (int i = 0; i < count; i++) {
      if (!optional || !rows[i].isNullAt(ordinal)) {
        return false;
      }
    }
    return true;
  }

  /** There is no value here: `level` says down to where there is one. */
  abstract void nothing(int repetition, int level);

  /** There is no value here in `count` rows, none of which is part of a list. */
  abstract void nothings(int count, int level);

  abstract void leaves(Consumer<Leaf> each);
}
