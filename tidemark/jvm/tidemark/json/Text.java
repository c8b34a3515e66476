package tidemark.json;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Fault;

/** JSON text of values as the Python decoder writes it: without spaces, numbers with all their digits. */
final class Text {
  /** For values that only have to be JSON. */
  static final Text NOWHERE = new Text(null);

  private static final int FIRST = 64;
  private static final String[] SHORT = new String[' '];

  static {
    for (int i = 0; i < SHORT.length; i++) {
      SHORT[i] = String.format("\\u%04x", i);
    }
    SHORT['\b'] = "\\b";
    SHORT['\f'] = "\\f";
    SHORT['\n'] = "\\n";
    SHORT['\r'] = "\\r";
    SHORT['\t'] = "\\t";
  }

  private byte[] bytes; // null for NOWHERE
  private int length;

  Text() {
    this(new byte[FIRST]);
  }

  private Text(byte[] bytes) {
    this.bytes = bytes;
  }

  UTF8String all() {
    return UTF8String.fromBytes(bytes, 0, length);
  }

  void add(char ascii) {
    if (bytes != null) {
      room(1);
      bytes[length++] = (byte) ascii;
    }
  }

  void add(String ascii) {
    if (bytes != null) {
      byte[] added = ascii.getBytes(StandardCharsets.US_ASCII);
      room(added.length);
      System.arraycopy(added, 0, bytes, length, added.length);
      length += added.length;
    }
  }

  private void room(int more) {
    if (length + more > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
    }
  }

  /** The last text of `in` as a string. */
  void string(Input in) {
    if (bytes == null) {
      return;
    }
    add('"');
    for (int i = 0; i < in.length(); i++) {
      escaped(in.character(i));
    }
    add('"');
  }

  void string(String text) {
    add('"');
    for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
      escaped(each);
    }
    add('"');
  }

  private void escaped(byte found) {
    if (found == '"' || found == '\\') {
      add('\\');
    }
    if (found >= 0 && found < ' ') {
      add(SHORT[found]);
    } else {
      add((char) found);
    }
  }

  /** Takes the value that stands next, whatever it is. */
  void value(Input in, Numeral numeral) {
    switch (in.next()) {
      case '{':
        object(in, numeral);
        break;
      case '[':
        array(in, numeral);
        break;
      case '"':
        in.string();
        string(in);
        break;
      case 't':
        literal(in, "true");
        break;
      case 'f':
        literal(in, "false");
        break;
      case 'n':
        literal(in, "null");
        break;
      default:
        numeral.read(in);
        if (bytes != null) {
          numeral.write(this);
        }
    }
  }

  private void literal(Input in, String word) {
    in.take(word);
    add(word);
  }

  private void object(Input in, Numeral numeral) {
    add('{');
    Set<UTF8String> keys = new HashSet<>();
    for (boolean more = in.open('}'); more; more = in.more('}')) {
      in.key();
      if (!keys.add(in.lastText())) {
        throw Fault.UNDECODABLE;
      }
      if (keys.size() > 1) {
        add(',');
      }
      string(in);
      add(':');
      value(in, numeral);
    }
    add('}');
  }

  private void array(Input in, Numeral numeral) {
    add('[');
    boolean isFirst = true;
    for (boolean more = in.open(']'); more; more = in.more(']')) {
      if (!isFirst) {
        add(',');
      }
      isFirst = false;
      value(in, numeral);
    }
    add(']');
  }
}
