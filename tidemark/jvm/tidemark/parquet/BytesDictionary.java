package tidemark.parquet;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;

/** Strings of bytes to their places in the order in which they came first; they lie as a dictionary page has them. */
final class BytesDictionary {
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int FIRST = 16;
  private static final long SPREAD = 0x9E3779B97F4A7C15L;

  private final int prefix;
  private final int most;
  private byte[] page = new byte[64];
  private int end;
  private int[] starts = new int[FIRST]; // of the bytes themselves
  private int[] sizes = new int[FIRST];
  private int[] hashes = new int[FIRST];
  private int[] pages = new int[FIRST]; // the last in which each came
  private int[] slots = new int[2 * FIRST]; // the place plus one
  private int entries;
  private int turned;

  /** `length` of every value, 0 where each says its own; `most` bytes of its page. */
  BytesDictionary(int length, int most) {
    this.prefix = length == 0 ? Integer.BYTES : 0;
    this.most = most;
  }

  /** The place of a value, or -1 where it is a new one that the page has no room for. */
  int number(byte[] bytes, int from, int size) {
    int hash = hash(bytes, from, size);
    int mask = slots.length - 1;
    int slot = hash & mask;
    while (slots[slot] != 0) {
      int place = slots[slot] - 1;
      if (hashes[place] == hash && equal(place, bytes, from, size)) {
        return place;
      }
      slot = (slot + 1) & mask;
    }
    if ((long) end + prefix + size > most) {
      return -1;
    }
    if (entries == starts.length) {
      grow();
      return number(bytes, from, size);
    }
    slots[slot] = entries + 1;
    hashes[entries] = hash;
    sizes[entries] = size;
    page = Leaf.grown(page, end + prefix + size);
    if (prefix > 0) {
      INT.set(page, end, size);
    }
    starts[entries] = end + prefix;
    System.arraycopy(bytes, from, page, end + prefix, size);
    end += prefix + size;
    return entries++;
  }

  void turnPage() {
    turned++;
  }

  /** True once for each value of a page. */
  boolean isFirstOfPage(int place) {
    boolean first = pages[place] != turned;
    pages[place] = turned;
    return first;
  }

  private boolean equal(int place, byte[] bytes, int from, int size) {
    int start = starts[place];
    return sizes[place] == size && Arrays.equals(page, start, start + size, bytes, from, from + size);
  }

  private static int hash(byte[] bytes, int from, int size) {
    long hash = size;
    int last = from + size - Long.BYTES;
    for (int at = from; at < last; at += Long.BYTES) {
      hash = mixed(hash, (long) LONG.get(bytes, at));
    }
    hash = mixed(hash, size < Long.BYTES ? few(bytes, from, size) : (long) LONG.get(bytes, last));
    return (int) (hash * SPREAD >>> 32); // the last bytes too reach all of these bits
  }

  private static long mixed(long hash, long next) {
    long mixed = (hash ^ next) * SPREAD;
    return mixed ^ mixed >>> 29;
  }

  /** Fewer than eight bytes, some of them twice. */
  private static long few(byte[] bytes, int from, int size) {
    if (size >= Integer.BYTES) {
      return (long) (int) INT.get(bytes, from) << 32 ^ (int) INT.get(bytes, from + size - Integer.BYTES);
    }
    return size == 0 ? 0 : bytes[from] << 16 ^ bytes[from + size / 2] << 8 ^ bytes[from + size - 1];
  }

  private void grow() {
    starts = Arrays.copyOf(starts, 2 * entries);
    sizes = Arrays.copyOf(sizes, 2 * entries);
    hashes = Arrays.copyOf(hashes, 2 * entries);
    pages = Arrays.copyOf(pages, 2 * entries);
    slots = new int[4 * entries];
    int mask = slots.length - 1;
    for (int place = 0; place < entries; place++) {
      int slot = hashes[place] & mask;
      while (slots[slot] != 0) {
        slot = (slot + 1) & mask;
      }
      slots[slot] = place + 1;
    }
  }

  int entries() {
    return entries;
  }

  /** Of its page. */
  int bytes() {
    return end;
  }

  BytesInput page() {
    return BytesInput.from(page, 0, end);
  }

  /** Bytes in memory. */
  long room() {
    return page.length + 16L * starts.length + 4L * slots.length;
  }

  void release() {
    page = new byte[64];
    starts = new int[FIRST];
    sizes = new int[FIRST];
    hashes = new int[FIRST];
    pages = new int[FIRST];
    slots = new int[2 * FIRST];
    entries = 0;
    end = 0;
  }

  void clear() {
    if (entries > 0) {
      entries = 0;
      end = 0;
      Arrays.fill(slots, 0);
    }
  }
}
