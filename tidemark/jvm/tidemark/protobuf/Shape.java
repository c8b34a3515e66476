package tidemark.protobuf;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import tidemark.decode.Fault;
import tidemark.decode.Record;

/** The fields of a message. */
final class Shape {
  private static final int FEW = 2048;

  private final Field[] fields;
  private final Field[] first; // by tag
  private final Map<Integer, Field> others = new HashMap<>();
  private final boolean hasCollections;

  Shape(Field[] fields) {
    this.fields = fields;
    int longest = 0;
    for (Field field : fields) {
      for (int tag : field.tags()) {
        others.put(tag, field);
        longest = tag >= 0 && tag < FEW ? Math.max(longest, tag + 1) : longest;
      }
    }
    first = new Field[longest];
    Arrays.setAll(first, others::get);
    hasCollections = !Arrays.stream(fields).allMatch(field -> field instanceof Single);
  }

  private Field of(int tag) {
    return tag >= 0 && tag < first.length ? first[tag] : others.get(tag);
  }

  /** Of well-formed and known fields alone. */
  void read(Input in, Record row) {
    Object[] open = hasCollections ? new Object[fields.length] : null;
    while (in.hasMore()) {
      int tag = in.tag();
      Field field = of(tag);
      if (field == null) {
        throw Fault.INVALID;
      }
      field.read(in, tag, row, open);
    }
    for (Field field : fields) {
      field.finish(row, open);
    }
  }

  Tree tree() {
    return new Tree(fields.length);
  }

  void parse(Input in, Tree tree, int depth) {
    while (in.hasMore()) {
      int tag = in.tag();
      Field field = of(tag);
      if (field == null) {
        in.skip(tag, depth);
        tree.hasUnknown = true;
      } else {
        field.parse(in, tag, tree, depth);
      }
    }
  }

  boolean isComplete(Tree tree) {
    for (Field field : fields) {
      if (!field.isComplete(tree.parts[field.index])) {
        return false;
      }
    }
    return true;
  }

  void check(Tree tree) {
    if (tree.hasUnknown) {
      throw Fault.INVALID;
    }
    for (Field field : fields) {
      field.check(tree.parts[field.index]);
    }
  }

  void store(Tree tree, Record row) {
    for (Field field : fields) {
      field.store(tree.parts[field.index], row);
    }
  }
}
