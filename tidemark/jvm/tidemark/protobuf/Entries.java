package tidemark.protobuf;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import tidemark.decode.Fault;
import tidemark.decode.Record;

/** A map; the last of several values of a key is its value. */
final class Entries extends Field {
  private final Value key;
  private final Value value;
  private final int keyTag;
  private final int valueTag;

  Entries(int index, int ordinal, int number, Value key, Value value) {
    super(index, ordinal, number);
    this.key = key;
    this.value = value;
    this.keyTag = 1 << 3 | key.wireType;
    this.valueTag = 2 << 3 | value.wireType;
  }

  @Override
  int[] tags() {
    return new int[] {number << 3 | Input.SIZED};
  }

  @SuppressWarnings("unchecked")
  private Map<Object, Object> found(Object[] parts) {
    if (parts[index] == null) {
      parts[index] = new LinkedHashMap<>();
    }
    return (Map<Object, Object>) parts[index];
  }

  @Override
  void read(Input in, int tag, Record row, Object[] open) {
    Object foundKey = null;
    Object foundValue = null;
    int outer = in.open();
    while (in.hasMore()) {
      int next = in.tag();
      if (next == keyTag) {
        foundKey = key.read(in);
      } else if (next == valueTag && (foundValue == null || !value.isMessage())) {
        foundValue = value.read(in);
      } else {
        throw Fault.INVALID;
      }
    }
    in.close(outer);
    if (foundValue == null && value.isMessage()) {
      throw Fault.INVALID;
    }
    found(open)
        .put(
            foundKey == null ? key.object(key.unset()) : foundKey,
            foundValue == null ? value.object(value.unset()) : foundValue);
  }

  @Override
  void finish(Record row, Object[] open) {
    Map<Object, Object> found = found(open);
    row.update(ordinal, map(found.keySet().toArray(), found.values().toArray()));
  }

  private static ArrayBasedMapData map(Object[] keys, Object[] values) {
    return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
  }

  /** An entry with what the schema does not have is as a whole such a thing of the message around the map. */
  @Override
  void parse(Input in, int tag, Tree tree, int depth) {
    if (depth == 0) {
      throw Fault.UNDECODABLE;
    }
    Object foundKey = key.unset();
    Object foundValue = value.unset();
    boolean hasUnknown = false;
    int outer = in.open();
    while (in.hasMore()) {
      int next = in.tag();
      if (next == keyTag) {
        foundKey = key.parsed(in, null, depth - 1);
      } else if (next == valueTag) {
        foundValue = value.parsed(in, foundValue, depth - 1);
      } else {
        in.skip(next, depth - 1);
        hasUnknown = true;
      }
    }
    in.close(outer);
    if (hasUnknown) {
      tree.hasUnknown = true;
    } else {
      found(tree.parts).put(foundKey, foundValue);
    }
  }

  private static Map<?, ?> entries(Object part) {
    return part == null ? Map.of() : (Map<?, ?>) part;
  }

  @Override
  boolean isComplete(Object part) {
    return entries(part).values().stream().allMatch(value::isComplete);
  }

  /** A key that is no UTF-8 cannot be looked up in Python, whatever comes behind it. */
  @Override
  void check(Object part) {
    entries(part)
        .forEach(
            (each, itsValue) -> {
              key.object(each);
              key.check(each);
              value.check(itsValue);
            });
  }

  @Override
  void store(Object part, Record row) {
    Map<?, ?> found = entries(part);
    row.update(
        ordinal,
        map(
            found.keySet().stream().map(each -> key.object(each)).toArray(),
            found.values().stream().map(each -> value.object(each)).toArray()));
  }
}
