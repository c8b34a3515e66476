package tidemark.parquet;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What all files that this JVM has open hold in memory, and its bound.
 *
 * <p>A task keeps a file open for each table partition, so what they hold together depends on the data. Beyond the bound
 * the larger ones end their row groups early.
 */
final class Memory {
  private static final long BOUND = Runtime.getRuntime().maxMemory() / 5;
  private static final int ROWS = 64; // that wait in all files
  private static final AtomicLong HELD = new AtomicLong();
  private static final AtomicInteger FILES = new AtomicInteger();

  private Memory() {}

  /** Rows that each file may let wait: all together they are few, for nobody knows how large they are. */
  static int rowsPerFile() {
    return ROWS / Math.max(1, FILES.get());
  }

  static void opened() {
    FILES.incrementAndGet();
  }

  static void closed(long held) {
    FILES.decrementAndGet();
    HELD.addAndGet(-held);
  }

  static void changed(long bytes) {
    HELD.addAndGet(bytes);
  }

  /** Whether a file that holds so many bytes, no less than the average one, must let go of them. */
  static boolean isShort(long held) {
    long all = HELD.get();
    return all > BOUND && held >= all / Math.max(1, FILES.get());
  }
}
