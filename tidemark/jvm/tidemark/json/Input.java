package tidemark.json;

import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Fault;
import tidemark.decode.Utf8;

/**
 * The bytes of one document, and its last text; what RFC 8259 does not allow is thrown as UNDECODABLE.
 *
 * <p>A value that does not land is noted as a fault, and the document is read on: damage further on counts for more.
 */
final class Input {
  private static final int MOST_LEVELS = 200; // that are not empty: as many as the Python decoder's parser opens

  private final boolean hasSchema;
  private final int mostLevels;
  byte[] bytes;
  int at;

  /** The first fault of what is being read; null as long as all of it lands. */
  Fault fault;

  /** Whether the document is known not to be valid against its schema. */
  boolean isInvalid;

  private byte[] text;
  private int start;
  private int stop;
  private int level;

  Input(boolean hasSchema) {
    this(hasSchema, 0);
  }

  /** With so many levels more, which stand around documents that were checked before. */
  Input(boolean hasSchema, int moreLevels) {
    this.hasSchema = hasSchema;
    this.mostLevels = MOST_LEVELS + moreLevels;
  }

  void begin(byte[] value, int from) {
    bytes = value;
    at = from;
    fault = null;
    isInvalid = false;
    level = 0;
  }

  /** The first byte of the next token, which is not taken yet. */
  byte next() {
    while (at < bytes.length) {
      byte found = bytes[at];
      if (found != ' ' && found != '\n' && found != '\r' && found != '\t') {
        return found;
      }
      at++;
    }
    throw Fault.UNDECODABLE;
  }

  boolean isAtEnd() {
    while (at < bytes.length && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t')) {
      at++;
    }
    return at == bytes.length;
  }

  /** Takes null where it stands next. */
  boolean takeNull() {
    if (next() != 'n') {
      return false;
    }
    take("null");
    return true;
  }

  void take(String literal) {
    for (int i = 0; i < literal.length(); i++) {
      if (at >= bytes.length || bytes[at++] != literal.charAt(i)) {
        throw Fault.UNDECODABLE;
      }
    }
  }

  /** Takes the bracket that opens an object or array; false when it is closed at once. */
  boolean open(char closing) {
    at++;
    if (next() == closing) {
      at++;
      return false;
    }
    if (++level > mostLevels) {
      throw Fault.UNDECODABLE;
    }
    return true;
  }

  /** Takes the comma before another member, or the bracket behind the last one. */
  boolean more(char closing) {
    byte found = next();
    at++;
    if (found == ',') {
      next();
      return true;
    }
    if (found != closing) {
      throw Fault.UNDECODABLE;
    }
    level--;
    return false;
  }

  /** Takes a key and its colon; the key is the last text. */
  void key() {
    if (next() != '"') {
      throw Fault.UNDECODABLE;
    }
    string();
    if (next() != ':') {
      throw Fault.UNDECODABLE;
    }
    at++;
  }

  /** What stands here is of another type than its place. */
  void mistype() {
    mistype(Fault.TYPE_MISMATCH);
  }

  /** The same, with what it is where no schema says the type. */
  void mistype(Fault otherwise) {
    if (hasSchema) {
      isInvalid = true;
    } else {
      fail(otherwise);
    }
  }

  void fail(Fault found) {
    if (fault == null) {
      fault = found;
    }
  }

  /** Takes a string, which stands next; it is the last text. */
  void string() {
    byte[] from = bytes;
    int place = at + 1;
    int signs = 0;
    text = from;
    start = place;
    for (; place < from.length; place++) {
      byte found = from[place];
      if (found == '"') {
        stop = place;
        at = place + 1;
        checkUtf8(signs);
        return;
      }
      if (found == '\\') {
        escaped(place, signs);
        return;
      }
      if (found >= 0 && found < ' ') {
        throw Fault.UNDECODABLE;
      }
      signs |= found;
    }
    throw Fault.UNDECODABLE;
  }

  private void checkUtf8(int signs) {
    if (signs < 0 && !Utf8.isValid(lastText())) {
      throw Fault.UNDECODABLE;
    }
  }

  /** The rest of a string that has an escape at `place`. */
  private void escaped(int place, int signs) {
    Escapes found = new Escapes(bytes, start, place);
    at = found.rest();
    text = found.text();
    start = 0;
    stop = found.length();
    checkUtf8(signs | found.signs());
  }

  /** The last text, where it lies. */
  UTF8String lastText() {
    return UTF8String.fromBytes(text, start, stop - start);
  }

  boolean isLastText(byte[] other) {
    return stop - start == other.length && java.util.Arrays.equals(text, start, stop, other, 0, other.length);
  }

  int length() {
    return stop - start;
  }

  byte character(int index) {
    return text[start + index];
  }
}
