package tidemark.json;

import tidemark.decode.Fault;

/** A string with escapes, written out. */
final class Escapes {
  private static final int HEX = 16;
  private static final String SHORT = "\"\\/bfnrt";
  private static final String MEANT = "\"\\/\b\f\n\r\t";

  private final byte[] bytes;
  private final byte[] text;
  private int at;
  private int length;
  private int signs;

  /** `start` is the string's first byte, `escape` the first backslash in it. */
  Escapes(byte[] bytes, int start, int escape) {
    this.bytes = bytes;
    at = escape;
    length = escape - start;
    text = new byte[end() - start]; // no escape is longer than what it stands for is short
    System.arraycopy(bytes, start, text, 0, length);
    read();
  }

  /** Where the string ends at the latest. */
  private int end() {
    for (int place = at; place < bytes.length; place++) {
      if (bytes[place] == '"') {
        return place;
      }
      if (bytes[place] == '\\') {
        place++;
      }
    }
    throw Fault.UNDECODABLE;
  }

  private void read() {
    for (byte found = take(); found != '"'; found = take()) {
      if (found == '\\') {
        escape();
      } else if (found >= 0 && found < ' ') {
        throw Fault.UNDECODABLE;
      } else {
        text[length++] = found;
        signs |= found;
      }
    }
  }

  private byte take() {
    if (at >= bytes.length) {
      throw Fault.UNDECODABLE;
    }
    return bytes[at++];
  }

  private void escape() {
    byte found = take();
    if (found == 'u') {
      point(codePoint());
      return;
    }
    int meant = SHORT.indexOf(found);
    if (meant < 0) {
      throw Fault.UNDECODABLE;
    }
    text[length++] = (byte) MEANT.charAt(meant);
  }

  private int codePoint() {
    int first = unit();
    if (!Character.isSurrogate((char) first)) {
      return first;
    }
    if (Character.isLowSurrogate((char) first) || take() != '\\' || take() != 'u') {
      throw Fault.UNDECODABLE;
    }
    int second = unit();
    if (!Character.isLowSurrogate((char) second)) {
      throw Fault.UNDECODABLE;
    }
    return Character.toCodePoint((char) first, (char) second);
  }

  private int unit() {
    int found = 0;
    for (int i = 0; i < 4; i++) {
      byte digit = take();
      int number = digit < 0 ? -1 : Character.digit(digit, HEX);
      if (number < 0) {
        throw Fault.UNDECODABLE;
      }
      found = found * HEX + number;
    }
    return found;
  }

  private void point(int point) {
    if (point < 0x80) {
      text[length++] = (byte) point;
    } else if (point < 0x800) {
      text[length++] = (byte) (0xC0 | point >> 6);
      tail(point, 0);
    } else if (point < 0x10000) {
      text[length++] = (byte) (0xE0 | point >> 12);
      tail(point, 6);
    } else {
      text[length++] = (byte) (0xF0 | point >> 18);
      tail(point, 12);
    }
  }

  private void tail(int point, int from) {
    for (int shift = from; shift >= 0; shift -= 6) {
      text[length++] = (byte) (0x80 | point >> shift & 0x3F);
    }
  }

  byte[] text() {
    return text;
  }

  int length() {
    return length;
  }

  /** Where the document goes on behind the string. */
  int rest() {
    return at;
  }

  /** Negative where a byte was not ASCII. */
  int signs() {
    return signs;
  }
}
