package tidemark.parquet;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * What a file holds in memory, as part of what all files do that this JVM has open, and the bound of that.
 *
 * <p>A task keeps a file open for each table partition, so what they hold together depends on the data. Beyond the
 * bound the larger ones end their row groups early.
 */
final class Memory {
  private static final long BOUND = Runtime.getRuntime().maxMemory() / 5;
  private static final int ROWS = 64; // that wait in all files
  private static final AtomicLong HELD = new AtomicLong();
  private static final AtomicInteger FILES = new AtomicInteger();

  private long held;
  private boolean open = true;

  private Memory() {}

  /** Of a file that is open now; given back as its task ends, for Iceberg closes no file after one that fails. */
  static Memory opened() {
    Memory made = new Memory();
    FILES.incrementAndGet();
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.addTaskCompletionListener((TaskCompletionListener) ended -> made.close());
    }
    return made;
  }

  /** Rows that each file may let wait: all together they are few, for nobody knows how large they are. */
  static int rowsPerFile() {
    return ROWS / Math.max(1, FILES.get());
  }

  /** Bytes that each file may take before it says what it holds: all together they are a part of the bound. */
  static long unseenPerFile() {
    return BOUND / 4 / Math.max(1, FILES.get());
  }

  void holds(long bytes) {
    HELD.addAndGet(bytes - held);
    held = bytes;
  }

  /** Whether this file, which holds no less than the average one, must let go of it. */
  boolean isShort() {
    long all = HELD.get();
    return all > BOUND && held >= all / Math.max(1, FILES.get());
  }

  void close() {
    if (open) {
      open = false;
      holds(0);
      FILES.decrementAndGet();
    }
  }
}
