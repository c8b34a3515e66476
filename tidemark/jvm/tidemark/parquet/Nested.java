package tidemark.parquet;

import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;

/** Structs, lists and maps. */
abstract class Nested extends Node {
  private final Node[] children;

  private Nested(int definition, boolean optional, Node... children) {
    super(definition, optional);
    this.children = children;
  }

  @Override
  final void nothing(int repetition, int level) {
    for (Node child : children) {
      child.nothing(repetition, level);
    }
  }

  @Override
  final void nothings(int count, int level) {
    for (Node child : children) {
      child.nothings(count, level);
    }
  }

  @Override
  final void leaves(Consumer<Leaf> each) {
    for (Node child : children) {
      child.leaves(each);
    }
  }

  @Override
  final void append(SpecializedGetters from, int ordinal, int repetition) {
    if (optional && from.isNullAt(ordinal)) {
      nothing(repetition, definition - 1);
    } else {
      present(from, ordinal, repetition);
    }
  }

  @Override
  void appendAll(SpecializedGetters[] rows, int count, int ordinal) {
    if (isNothing(rows, count, ordinal)) {
      nothings(count, definition - 1);
    } else {
      super.appendAll(rows, count, ordinal);
    }
  }

  abstract void present(SpecializedGetters from, int ordinal, int repetition);

  /** A struct: its fields by position. */
  static final class Struct extends Nested {
    private final Node[] fields;

    Struct(int definition, boolean optional, Node[] fields) {
      super(definition, optional, fields);
      this.fields = fields;
    }

    @Override
    void present(SpecializedGetters from, int ordinal, int repetition) {
      all(from.getStruct(ordinal, fields.length), repetition);
    }

    private void all(InternalRow row, int repetition) {
      for (int i = 0; i < fields.length; i++) {
        fields[i].append(row, i, repetition);
      }
    }

    /** Takes the first `count` rows, column by column. */
    void all(SpecializedGetters[] rows, int count) {
      for (int i = 0; i < fields.length; i++) {
        fields[i].appendAll(rows, count, i);
      }
    }

    @Override
    void appendAll(SpecializedGetters[] rows, int count, int ordinal) {
      if (isAbsent(rows, count, ordinal)) {
        super.appendAll(rows, count, ordinal);
        return;
      }
      SpecializedGetters[] structs = new SpecializedGetters[count];
      for (int i = 0; i < count; i++) {
        structs[i] = rows[i].getStruct(ordinal, fields.length);
      }
      all(structs, count);
    }
  }

  /** A list; `repetition` is the level of its second element. */
  static final class Repeated extends Nested {
    private final Node element;
    private final int again;

    Repeated(int definition, boolean optional, int again, Node element) {
      super(definition, optional, element);
      this.element = element;
      this.again = again;
    }

    @Override
    void present(SpecializedGetters from, int ordinal, int repetition) {
      ArrayData list = from.getArray(ordinal);
      int count = list.numElements();
      if (count == 0) {
        nothing(repetition, definition);
      }
      for (int i = 0; i < count; i++) {
        element.append(list, i, i == 0 ? repetition : again);
      }
    }
  }

  /** A map, as a list of keys with their values. */
  static final class Entries extends Nested {
    private final Node key;
    private final Node value;
    private final int again;

    Entries(int definition, boolean optional, int again, Node key, Node value) {
      super(definition, optional, key, value);
      this.key = key;
      this.value = value;
      this.again = again;
    }

    @Override
    void present(SpecializedGetters from, int ordinal, int repetition) {
      MapData map = from.getMap(ordinal);
      int count = map.numElements();
      if (count == 0) {
        nothing(repetition, definition);
        return;
      }
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      for (int i = 0; i < count; i++) {
        int level = i == 0 ? repetition : again;
        key.append(keys, i, level);
        value.append(values, i, level);
      }
    }
  }
}
