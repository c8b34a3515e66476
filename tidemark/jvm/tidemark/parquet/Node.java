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

  /** There is no value here: `level` says down to where there is one. */
  abstract void nothing(int repetition, int level);

  abstract void leaves(Consumer<Leaf> each);
}
