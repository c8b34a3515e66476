package tidemark.parquet;

import java.util.Arrays;

/** Numbers to their places in the order in which they came first. */
final class LongDictionary {
  private static final int FIRST = 16;
  private static final long SPREAD = 0x9E3779B97F4A7C15L;

  private long[] values = new long[FIRST];
  private int[] slots = new int[2 * FIRST]; // the place plus one
  private int size;

  int number(long value) {
    int mask = slots.length - 1;
    // the topmost bits, which all bits of the value reach: round numbers are floating ones that end in zeros
    int slot = (int) ((value * SPREAD) >>> Long.numberOfLeadingZeros(mask));
    while (slots[slot] != 0) {
      int place = slots[slot] - 1;
      if (values[place] == value) {
        return place;
      }
      slot = (slot + 1) & mask;
    }
    if (size == values.length) {
      grow();
      return number(value);
    }
    values[size] = value;
    slots[slot] = size + 1;
    return size++;
  }

  private void grow() {
    long[] old = values;
    int count = size;
    values = new long[2 * count];
    slots = new int[4 * count];
    size = 0;
    for (int i = 0; i < count; i++) {
      number(old[i]);
    }
  }

  int size() {
    return size;
  }

  long[] values() {
    return values;
  }

  /** Bytes in memory. */
  long room() {
    return 8L * values.length + 4L * slots.length;
  }

  void release() {
    values = new long[FIRST];
    slots = new int[2 * FIRST];
    size = 0;
  }

  void clear() {
    if (size > 0) {
      size = 0;
      Arrays.fill(slots, 0);
    }
  }
}
