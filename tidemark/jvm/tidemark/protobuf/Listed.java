package tidemark.protobuf;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import tidemark.decode.Record;

/** A repeated field, its numbers packed or not. */
final class Listed extends Field {
  private final Value item;
  private final int itemTag;

  Listed(int index, int ordinal, int number, Value item) {
    super(index, ordinal, number);
    this.item = item;
    this.itemTag = number << 3 | item.wireType;
  }

  @Override
  int[] tags() {
    return item.wireType == Input.SIZED ? new int[] {itemTag} : new int[] {itemTag, number << 3 | Input.SIZED};
  }

  @SuppressWarnings("unchecked")
  private List<Object> found(Object[] parts) {
    if (parts[index] == null) {
      parts[index] = new ArrayList<>();
    }
    return (List<Object>) parts[index];
  }

  @Override
  void read(Input in, int tag, Record row, Object[] open) {
    List<Object> found = found(open);
    if (tag == itemTag) {
      found.add(item.read(in));
      return;
    }
    int outer = in.open();
    while (in.hasMore()) {
      found.add(item.read(in));
    }
    in.close(outer);
  }

  @Override
  void finish(Record row, Object[] open) {
    row.update(ordinal, new GenericArrayData(found(open).toArray()));
  }

  @Override
  void parse(Input in, int tag, Tree tree, int depth) {
    List<Object> found = found(tree.parts);
    if (tag == itemTag) {
      found.add(item.parsed(in, null, depth));
      return;
    }
    int outer = in.open();
    while (in.hasMore()) {
      found.add(item.parsed(in, null, depth));
    }
    in.close(outer);
  }

  private static List<?> items(Object part) {
    return part == null ? List.of() : (List<?>) part;
  }

  @Override
  boolean isComplete(Object part) {
    return items(part).stream().allMatch(item::isComplete);
  }

  @Override
  void check(Object part) {
    items(part).forEach(item::check);
  }

  @Override
  void store(Object part, Record row) {
    Object[] objects = items(part).stream().map(each -> item.object(each)).toArray();
    row.update(ordinal, new GenericArrayData(objects));
  }
}
