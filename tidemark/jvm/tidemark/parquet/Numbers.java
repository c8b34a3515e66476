package tidemark.parquet;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.iceberg.DoubleFieldMetrics;
import org.apache.iceberg.FieldMetrics;
import org.apache.iceberg.FloatFieldMetrics;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.column.statistics.Statistics;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** A column of numbers of four or eight bytes: integers, dates, times, short decimals, and floating ones by their bits. */
abstract class Numbers extends Leaf {
  private static final int FIRST = 16;

  final int width;
  private final LongDictionary dictionary = new LongDictionary();
  long[] values = new long[FIRST];
  int count;

  Numbers(ColumnDescriptor descriptor, boolean optional, Limits limits, int width) {
    super(descriptor, optional, limits);
    this.width = width;
  }

  final void add(long bits) {
    place(1)[count++] = bits;
  }

  /** Where values go, from `count` on, with room for so many more. */
  final long[] place(int more) {
    if (count + more > values.length) {
      values = Arrays.copyOf(values, Math.max(count + more, 2 * count));
    }
    return values;
  }

  @Override
  final int count() {
    return count;
  }

  @Override
  final long bytes() {
    return (long) count * width;
  }

  @Override
  final int entries() {
    return dictionary.size();
  }

  @Override
  final boolean isOne() {
    for (int i = 1; i < count; i++) {
      if (values[i] != values[0]) {
        return false;
      }
    }
    return true;
  }

  @Override
  final boolean number(int[] into, int first, boolean firstPage) {
    int most = limits.dictionaryBytes() / width;
    for (int i = 0; i < first; i++) {
      into[i] = dictionary.number(values[i]);
      if (isUseless(i, firstPage)) {
        return false;
      }
    }
    return dictionary.size() <= most;
  }

  @Override
  final BytesInput plain() {
    return written(values, count, limits.plain(count * width));
  }

  @Override
  final long dictionaryBytes() {
    return (long) entries() * width;
  }

  @Override
  final BytesInput dictionary() {
    return written(dictionary.values(), entries(), new byte[entries() * width]);
  }

  private BytesInput written(long[] numbers, int size, byte[] into) {
    ByteBuffer bytes = ByteBuffer.wrap(into).order(ByteOrder.LITTLE_ENDIAN);
    if (width == Long.BYTES) {
      bytes.asLongBuffer().put(numbers, 0, size);
    } else {
      for (int i = 0; i < size; i++) {
        bytes.putInt(i * width, (int) numbers[i]);
      }
    }
    return BytesInput.from(into, 0, size * width);
  }

  @Override
  final void clear() {
    count = 0;
  }

  @Override
  final long room() {
    return 8L * values.length + dictionary.room();
  }

  @Override
  final void release() {
    values = new long[FIRST];
    dictionary.release();
  }

  @Override
  final void forget() {
    dictionary.clear();
  }

  /** Integers, and what is one in Parquet. */
  abstract static class Whole extends Numbers {
    Whole(ColumnDescriptor descriptor, boolean optional, Limits limits, int width) {
      super(descriptor, optional, limits, width);
    }

    @Override
    final void describe(Statistics<?> statistics, int first) {
      long least = values[0];
      long most = values[0];
      for (int i = 1; i < first; i++) {
        least = Math.min(least, values[i]);
        most = Math.max(most, values[i]);
      }
      tell(statistics, least);
      tell(statistics, most);
    }

    abstract void tell(Statistics<?> statistics, long value);
  }

  /** int and date. */
  static final class Ints extends Whole {
    Ints(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits, Integer.BYTES);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      add(from.getInt(ordinal));
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      long[] to = place(count);
      int at = this.count;
      for (int i = 0; i < count; i++) {
        to[at + i] = rows[i].getInt(ordinal);
      }
      this.count = at + count;
    }

    @Override
    void tell(Statistics<?> statistics, long value) {
      statistics.updateStats((int) value);
    }
  }

  /** long and timestamps. */
  static final class Longs extends Whole {
    Longs(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits, Long.BYTES);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      add(from.getLong(ordinal));
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      long[] to = place(count);
      int at = this.count;
      for (int i = 0; i < count; i++) {
        to[at + i] = rows[i].getLong(ordinal);
      }
      this.count = at + count;
    }

    @Override
    void tell(Statistics<?> statistics, long value) {
      statistics.updateStats(value);
    }
  }

  /** Decimals of up to 18 digits, unscaled. */
  static final class Decimals extends Whole {
    private final DecimalShape shape;

    Decimals(ColumnDescriptor descriptor, boolean optional, Limits limits, int width, DecimalShape shape) {
      super(descriptor, optional, limits, width);
      this.shape = shape;
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      add(shape.of(from, ordinal).toUnscaledLong());
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      for (int i = 0; i < count; i++) {
        take(rows[i], ordinal);
      }
    }

    @Override
    void tell(Statistics<?> statistics, long value) {
      if (width == Integer.BYTES) {
        statistics.updateStats((int) value);
      } else {
        statistics.updateStats(value);
      }
    }
  }

  /** float. */
  static final class Floats extends Numbers {
    private final FloatFieldMetrics.Builder metrics = new FloatFieldMetrics.Builder(id());

    Floats(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits, Float.BYTES);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      float value = from.getFloat(ordinal);
      metrics.addValue(value);
      add(Float.floatToRawIntBits(value));
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      for (int i = 0; i < count; i++) {
        take(rows[i], ordinal);
      }
    }

    @Override
    void describe(Statistics<?> statistics, int first) {
      for (int i = 0; i < first; i++) {
        statistics.updateStats(Float.intBitsToFloat((int) values[i]));
      }
    }

    @Override
    FieldMetrics<?> metrics() {
      return withNulls(metrics.build());
    }
  }

  /** double. */
  static final class Doubles extends Numbers {
    private final DoubleFieldMetrics.Builder metrics = new DoubleFieldMetrics.Builder(id());

    Doubles(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits, Double.BYTES);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      double value = from.getDouble(ordinal);
      metrics.addValue(value);
      add(Double.doubleToRawLongBits(value));
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      for (int i = 0; i < count; i++) {
        take(rows[i], ordinal);
      }
    }

    @Override
    void describe(Statistics<?> statistics, int first) {
      for (int i = 0; i < first; i++) {
        statistics.updateStats(Double.longBitsToDouble(values[i]));
      }
    }

    @Override
    FieldMetrics<?> metrics() {
      return withNulls(metrics.build());
    }
  }
}
