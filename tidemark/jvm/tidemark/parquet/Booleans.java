package tidemark.parquet;

import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.column.statistics.Statistics;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** A column of booleans, a bit each. */
final class Booleans extends Leaf {
  private static final int FIRST = 16;

  private byte[] bits = new byte[FIRST];
  private int count;
  private int trues;

  Booleans(ColumnDescriptor descriptor, boolean optional, Limits limits) {
    super(descriptor, optional, limits);
  }

  @Override
  void take(SpecializedGetters from, int ordinal) {
    int place = count >> 3;
    bits = grown(bits, place + 1);
    if ((count & 7) == 0) {
      bits[place] = 0;
    }
    if (from.getBoolean(ordinal)) {
      bits[place] |= (byte) (1 << (count & 7));
      trues++;
    }
    count++;
  }

  @Override
  void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
    for (int i = 0; i < count; i++) {
      take(rows[i], ordinal);
    }
  }

  @Override
  int count() {
    return count;
  }

  @Override
  long bytes() {
    return (count + 7) >> 3;
  }

  @Override
  boolean isOne() {
    return false;
  }

  @Override
  boolean number(int[] into, int values, boolean firstPage) {
    return false;
  }

  @Override
  int entries() {
    return 0;
  }

  @Override
  BytesInput plain() {
    return BytesInput.from(bits, 0, (count + 7) >> 3);
  }

  @Override
  long dictionaryBytes() {
    return 0;
  }

  @Override
  BytesInput dictionary() {
    return BytesInput.empty();
  }

  @Override
  void describe(Statistics<?> statistics, int values) {
    if (trues > 0) {
      statistics.updateStats(true);
    }
    if (trues < count) {
      statistics.updateStats(false);
    }
  }

  @Override
  void clear() {
    count = 0;
    trues = 0;
  }

  @Override
  long room() {
    return bits.length;
  }

  @Override
  void release() {
    bits = new byte[FIRST];
  }

  @Override
  void forget() {
    // there is no dictionary
  }
}
