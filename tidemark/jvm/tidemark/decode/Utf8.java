package tidemark.decode;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Whether a text is valid UTF-8; Spark's own answer looks at each byte of plain ASCII too. */
public final class Utf8 {
  private static final long NOT_ASCII = 0x8080808080808080L;

  private Utf8() {}

  public static boolean isValid(UTF8String text) {
    Object base = text.getBaseObject();
    long at = text.getBaseOffset();
    long end = at + text.numBytes();
    for (; at + Long.BYTES <= end; at += Long.BYTES) {
      if ((Platform.getLong(base, at) & NOT_ASCII) != 0) {
        return text.isValid();
      }
    }
    for (; at < end; at++) {
      if (Platform.getByte(base, at) < 0) {
        return text.isValid();
      }
    }
    return true;
  }
}
