package tidemark.parquet;

import java.io.IOException;
import java.util.Arrays;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.HeapByteBufferAllocator;
import org.apache.iceberg.shaded.org.apache.parquet.column.values.rle.RunLengthBitPackingHybridEncoder;

/** The repetition or definition levels of one page of a column, as bytes of the encoding RLE. */
final class Levels {
  private static final int FIRST = 256;

  private final int max;
  private byte[] levels = new byte[0];
  private int only; // as long as all are the same there is no list of them
  private boolean same = true;
  private int count;

  Levels(int max) {
    this.max = max;
  }

  void add(int level) {
    if (same && (level == only || count == 0)) {
      only = level;
      count++;
      return;
    }
    if (same) {
      same = false;
      levels = levels.length < count + 1 ? new byte[Math.max(FIRST, 2 * count)] : levels;
      Arrays.fill(levels, 0, count, (byte) only);
    } else if (count == levels.length) {
      levels = Arrays.copyOf(levels, 2 * count);
    }
    levels[count++] = (byte) level;
  }

  /** The same level `times` times. */
  void add(int level, int times) {
    if (same && (level == only || count == 0)) {
      only = level;
      count += times;
      return;
    }
    for (int i = 0; i < times; i++) {
      add(level);
    }
  }

  int count() {
    return count;
  }

  /** Bytes of the list. */
  int room() {
    return levels.length;
  }

  void release() {
    levels = new byte[0];
  }

  void clear() {
    count = 0;
    same = true;
  }

  /** Their length in four bytes, then the levels; nothing for a column that has none. */
  BytesInput page() throws IOException {
    if (max == 0) {
      return BytesInput.empty();
    }
    int width = Integer.SIZE - Integer.numberOfLeadingZeros(max);
    BytesInput encoded = same ? run(only, count, width) : list(width);
    return BytesInput.concat(BytesInput.fromInt((int) encoded.size()), encoded);
  }

  /** The same number `times` times; at least eight times is how Parquet's encoder writes it too. */
  static BytesInput run(int number, int times, int width) {
    byte[] bytes = new byte[5 + Integer.BYTES];
    int size = 0;
    int header = times << 1;
    while (header > 127) {
      bytes[size++] = (byte) (header | 128);
      header >>>= 7;
    }
    bytes[size++] = (byte) header;
    for (int bits = 0; bits < width; bits += Byte.SIZE) {
      bytes[size++] = (byte) (number >>> bits);
    }
    return BytesInput.from(bytes, 0, size);
  }

  private BytesInput list(int width) throws IOException {
    HeapByteBufferAllocator heap = HeapByteBufferAllocator.getInstance();
    try (RunLengthBitPackingHybridEncoder encoder =
        new RunLengthBitPackingHybridEncoder(width, FIRST, count + FIRST, heap)) {
      for (int i = 0; i < count; i++) {
        encoder.writeInt(levels[i]);
      }
      return BytesInput.copy(encoder.toBytes());
    }
  }
}
