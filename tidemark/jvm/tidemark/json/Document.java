package tidemark.json;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tidemark.decode.Fault;

/**
 * A parsed document: maps in the order of their keys, lists, texts, Booleans, Whole and Written numbers, null.
 *
 * <p>Where what a value means depends on another that may come behind it.
 */
final class Document {
  /** An integer, in decimal digits. */
  record Whole(String text) {}

  /** Any other number, as the Python decoder writes it. */
  record Written(String text) {}

  private final Input in = new Input(false);
  private final Numeral numeral = new Numeral();

  /** All of the value behind `from`. */
  Object read(byte[] value, int from) {
    in.begin(value, from);
    Object found = any();
    if (!in.isAtEnd()) {
      throw Fault.UNDECODABLE;
    }
    return found;
  }

  private Object any() {
    switch (in.next()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        in.string();
        return in.lastText().toString();
      case 't':
        in.take("true");
        return true;
      case 'f':
        in.take("false");
        return false;
      case 'n':
        in.take("null");
        return null;
      default:
        numeral.read(in);
        Text text = new Text();
        numeral.write(text);
        String written = text.all().toString();
        return numeral.isWhole ? new Whole(written) : new Written(written);
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> found = new LinkedHashMap<>();
    for (boolean more = in.open('}'); more; more = in.more('}')) {
      in.key();
      String key = in.lastText().toString();
      if (found.containsKey(key)) {
        throw Fault.UNDECODABLE;
      }
      found.put(key, any());
    }
    return found;
  }

  private List<Object> array() {
    List<Object> found = new ArrayList<>();
    for (boolean more = in.open(']'); more; more = in.more(']')) {
      found.add(any());
    }
    return found;
  }

  /** The text of a parsed value. */
  static String text(Object value) {
    Text out = new Text();
    write(value, out);
    return out.all().toString();
  }

  static void write(Object value, Text out) {
    if (value instanceof String text) {
      out.string(text);
    } else if (value instanceof Map<?, ?> map) {
      out.add('{');
      boolean isFirst = true;
      for (Map.Entry<?, ?> each : map.entrySet()) {
        out.add(isFirst ? "" : ",");
        isFirst = false;
        out.string((String) each.getKey());
        out.add(':');
        write(each.getValue(), out);
      }
      out.add('}');
    } else if (value instanceof List<?> list) {
      out.add('[');
      boolean isFirst = true;
      for (Object each : list) {
        out.add(isFirst ? "" : ",");
        isFirst = false;
        write(each, out);
      }
      out.add(']');
    } else if (value instanceof Whole number) {
      out.add(number.text());
    } else if (value instanceof Written number) {
      out.add(number.text());
    } else {
      out.add(String.valueOf(value)); // null, true, false
    }
  }
}
