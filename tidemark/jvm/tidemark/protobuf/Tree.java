package tidemark.protobuf;

/** A message as protobuf's own decoder holds it: what was said last of each field, null where nothing was. */
final class Tree {
  /** Numbers are Longs, texts UTF8Strings, bytes arrays, messages Trees, repeated fields Lists, maps Maps. */
  final Object[] parts;

  boolean hasUnknown;

  Tree(int fields) {
    parts = new Object[fields];
  }
}
