package tidemark.protobuf;

/** The message index of Confluent's wire format: how many numbers, then these, as zigzag varints; 0 alone is [0]. */
final class MessageIndex {
  private static final int MOST_NUMBERS = 16;
  private static final int MOST_BYTES = 5 * MOST_NUMBERS;

  private MessageIndex() {}

  /** Whether one begins there. */
  static boolean isAt(byte[] value, int from) {
    int end = Math.min(value.length, from + MOST_BYTES);
    int at = from;
    long count = 0;
    boolean isHuge = false;
    for (int shift = 0; ; shift += 7) {
      if (at == end) {
        return false;
      }
      byte next = value[at++];
      long bits = next & 0x7F;
      isHuge |= shift > 28 && bits != 0;
      count |= shift > 28 ? 0 : bits << shift;
      if (next >= 0) {
        break;
      }
    }
    if (isHuge || (count & 1) != 0 || count >>> 1 > MOST_NUMBERS) {
      return false;
    }
    for (long left = count >>> 1; left > 0 && at < end; at++) {
      left -= value[at] >= 0 ? 1 : 0;
      if (left == 0) {
        return true;
      }
    }
    return count == 0;
  }
}
