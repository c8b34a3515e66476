package tidemark.decode;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Whether a text is valid UTF-8; Spark's own answer looks at each byte of plain ASCII too. */
public final class Utf8 {
  private static final long NOT_ASCII = 0x8080808080808080L;

  private Utf8() {}

  public static boolean isValid(UTF8String text) {
    return isAscii(text.getBaseObject(), text.getBaseOffset(), text.numBytes()) || text.isValid();
  }

  /** Of a text in a row, which becomes no object for it. */
  static boolean isValid(InternalRow row, int ordinal) {
    boolean ascii =
        row instanceof Record record
            && record.isBare(ordinal)
            && isAscii(record.bytes(), Platform.BYTE_ARRAY_OFFSET + record.from(ordinal), record.size(ordinal));
    return ascii || isValid(row.getUTF8String(ordinal));
  }

  /** Eight bytes at a time; the last eight may be of those before, so that none is left over. */
  private static boolean isAscii(Object base, long from, int size) {
    if (size < Long.BYTES) {
      return isShortAscii(base, from, size);
    }
    long last = from + size - Long.BYTES;
    for (long at = from; at < last; at += Long.BYTES) {
      if ((Platform.getLong(base, at) & NOT_ASCII) != 0) {
        return false;
      }
    }
    return (Platform.getLong(base, last) & NOT_ASCII) == 0;
  }

  private static boolean isShortAscii(Object base, long from, int size) {
    if (size >= Integer.BYTES) {
      int seen = Platform.getInt(base, from) | Platform.getInt(base, from + size - Integer.BYTES);
      return (seen & (int) NOT_ASCII) == 0;
    }
    int seen = 0;
    for (int i = 0; i < size; i++) {
      seen |= Platform.getByte(base, from + i);
    }
    return seen >= 0;
  }
}
