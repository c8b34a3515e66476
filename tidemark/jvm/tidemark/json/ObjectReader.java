package tidemark.json;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Fault;
import tidemark.decode.Record;

/** Reads objects with declared properties into structs; of its faults that of the first property counts. */
final class ObjectReader extends Reader {
  /** A declared property, and the field of the struct that is its. */
  record Property(String name, Reader reader, int field) {}

  private final byte[][] names;
  private final Reader[] readers;
  private final int[] fields;
  private final boolean[] isRequired;
  private final boolean isClosed;
  private final Map<UTF8String, Integer> places = new HashMap<>();
  private final int width;
  private final int extra;
  private final Numeral numeral = new Numeral();

  /** `extra` is the field for what is not declared, -1 where nothing is kept; a closed object has nothing of it. */
  ObjectReader(List<Property> properties, Set<String> required, boolean isClosed, int width, int extra) {
    int count = properties.size();
    names = new byte[count][];
    readers = new Reader[count];
    fields = new int[count];
    isRequired = new boolean[count];
    this.isClosed = isClosed;
    for (int i = 0; i < count; i++) {
      Property property = properties.get(i);
      names[i] = property.name().getBytes(StandardCharsets.UTF_8);
      readers[i] = property.reader();
      fields[i] = property.field();
      isRequired[i] = required.contains(property.name());
      places.put(UTF8String.fromBytes(names[i]), i);
    }
    this.width = width;
    this.extra = extra;
  }

  @Override
  Object object(Input in) {
    if (in.next() == '{') {
      return struct(in);
    }
    return in.takeNull() ? null : misplaced(in);
  }

  private Record struct(Input in) {
    Record row = new Record(width);
    boolean[] seen = new boolean[names.length];
    Set<UTF8String> others = null;
    Text rest = extra < 0 ? Text.NOWHERE : null;
    Fault outer = in.fault;
    Fault first = null;
    int firstAt = names.length;
    int guess = 0;
    for (boolean more = in.open('}'); more; more = in.more('}')) {
      in.key();
      int place = place(in, guess);
      if (place >= 0) {
        if (seen[place]) {
          throw Fault.UNDECODABLE;
        }
        seen[place] = true;
        guess = place + 1;
        in.fault = null;
        readers[place].into(in, row, fields[place]);
        if (in.fault != null && place < firstAt) {
          first = in.fault;
          firstAt = place;
        }
      } else {
        others = others == null ? new HashSet<>() : others;
        if (!others.add(in.lastText())) {
          throw Fault.UNDECODABLE;
        }
        rest = rest == null ? new Text() : rest;
        rest.add(others.size() == 1 ? '{' : ',');
        rest.string(in);
        rest.add(':');
        rest.value(in, numeral);
      }
    }
    in.fault = outer == null ? first : outer;
    in.isInvalid |= isClosed && others != null || isLacking(seen);
    if (extra >= 0 && rest != null) {
      rest.add('}');
      row.update(extra, rest.all());
    }
    return row;
  }

  private boolean isLacking(boolean[] seen) {
    for (int i = 0; i < seen.length; i++) {
      if (isRequired[i] && !seen[i]) {
        return true;
      }
    }
    return false;
  }

  /** Of the property that the last text names, the one expected next at first; -1 for none. */
  private int place(Input in, int guess) {
    if (guess < names.length && in.isLastText(names[guess])) {
      return guess;
    }
    Integer found = places.get(in.lastText());
    return found == null ? -1 : found;
  }
}
