package tidemark.parquet;

import java.io.IOException;
import java.util.Arrays;
import java.util.function.Consumer;
import org.apache.iceberg.FieldMetrics;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.HeapByteBufferAllocator;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.column.Encoding;
import org.apache.iceberg.shaded.org.apache.parquet.column.page.DictionaryPage;
import org.apache.iceberg.shaded.org.apache.parquet.column.page.PageWriter;
import org.apache.iceberg.shaded.org.apache.parquet.column.statistics.Statistics;
import org.apache.iceberg.shaded.org.apache.parquet.column.values.rle.RunLengthBitPackingHybridEncoder;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/**
 * One column of a file: its values wait here until a page is full, and become that page at once.
 *
 * <p>With all values of a page at hand, its encoding is chosen by what they are: a dictionary (of the whole row group)
 * where it makes the page smaller, else the plain values. Pages are of data page version 1.
 */
abstract class Leaf extends Node {
  private static final int MANY = 4096;
  private static final int ELEMENT = 16; // bytes of an object in a list, at least
  private static final int ENOUGH = 2048; // values to judge a dictionary by
  private static final int RUN = 8; // values alike that are a run in the encoding RLE
  private static final double USELESS = 0.7; // of them are different: none will help

  final ColumnDescriptor descriptor;
  final PrimitiveType type;
  final Limits limits;
  private final Levels definitions;
  private final Levels repetitions;
  private PageWriter pages;
  private int rows;
  private long written; // entries of all pages
  private boolean encodes; // by dictionary, in this row group, until that is too large or of no use
  private boolean first; // no page of this row group has had a value

  Leaf(ColumnDescriptor descriptor, boolean optional, Limits limits) {
    super(descriptor.getMaxDefinitionLevel(), optional);
    this.descriptor = descriptor;
    this.type = descriptor.getPrimitiveType();
    this.limits = limits;
    this.definitions = new Levels(definition);
    this.repetitions = new Levels(descriptor.getMaxRepetitionLevel());
  }

  /** Takes a value that is there. */
  abstract void take(SpecializedGetters from, int ordinal);

  /** Takes `count` values that are there. Each class has a loop of its own, so that Java compiles it for that class. */
  abstract void takeAll(SpecializedGetters[] rows, int count, int ordinal);

  /** How many values wait. */
  abstract int count();

  /** About the bytes that the waiting values take. */
  abstract long bytes();

  /** Whether all waiting values are known to be the same. */
  abstract boolean isOne();

  /** The numbers in the dictionary of the first so many values, new ones added; false where one is of no use. */
  abstract boolean number(int[] into, int values, boolean firstPage);

  abstract int entries();

  /** Whether the values of the first page up to this one are so many different ones that a dictionary is of no use. */
  final boolean isUseless(int place, boolean firstPage) {
    return firstPage && place == ENOUGH && entries() > USELESS * ENOUGH;
  }

  /** The waiting values; good until the next page of the file. */
  abstract BytesInput plain();

  abstract BytesInput dictionary();

  /** Of its page. */
  abstract long dictionaryBytes();

  /** By the first so many values. */
  abstract void describe(Statistics<?> statistics, int values);

  abstract void clear();

  abstract void forget();

  /** Bytes that its arrays take, whatever waits in them. */
  abstract long room();

  /** Take arrays of the first size instead; nothing waits in them. */
  abstract void release();

  /** What Iceberg keeps of the whole file besides the footer; null for all but floating numbers. */
  FieldMetrics<?> metrics() {
    return null;
  }

  final int id() {
    return type.getId().intValue();
  }

  /** Iceberg's builders count values alone. */
  final <T> FieldMetrics<T> withNulls(FieldMetrics<T> values) {
    long nulls = written - values.valueCount();
    return new FieldMetrics<>(
        values.id(), written, nulls, values.nanValueCount(), values.lowerBound(), values.upperBound());
  }

  final void start(PageWriter writer) {
    pages = writer;
    encodes = limits.dictionary() && type.getPrimitiveTypeName() != PrimitiveType.PrimitiveTypeName.BOOLEAN;
    first = true;
    forget();
  }

  @Override
  final void append(SpecializedGetters from, int ordinal, int repetition) {
    if (optional && from.isNullAt(ordinal)) {
      nothing(repetition, definition - 1);
      return;
    }
    take(from, ordinal);
    level(repetition, definition);
  }

  @Override
  final void appendAll(SpecializedGetters[] from, int count, int ordinal) {
    if (isNothing(from, count, ordinal)) {
      nothings(count, definition - 1);
      return;
    }
    if (isAbsent(from, count, ordinal)) {
      takePresent(from, count, ordinal);
    } else {
      takeAll(from, count, ordinal);
      definitions.add(definition, count);
    }
    repetitions.add(0, count);
    rows += count;
  }

  private void takePresent(SpecializedGetters[] from, int count, int ordinal) {
    SpecializedGetters[] present = new SpecializedGetters[count];
    int found = 0;
    for (int i = 0; i < count; i++) {
      if (from[i].isNullAt(ordinal)) {
        definitions.add(definition - 1);
      } else {
        definitions.add(definition);
        present[found++] = from[i];
      }
    }
    takeAll(present, found, ordinal);
  }

  @Override
  final void nothing(int repetition, int level) {
    level(repetition, level);
  }

  @Override
  final void nothings(int count, int level) {
    definitions.add(level, count);
    repetitions.add(0, count);
    rows += count;
  }

  private void level(int repetition, int level) {
    definitions.add(level);
    repetitions.add(repetition);
    if (repetition == 0) {
      rows++;
      return;
    }
    limits.took(ELEMENT);
    if (definitions.count() % MANY == 0) { // a long list, perhaps of NULLs
      limits.over();
    }
  }

  @Override
  final void leaves(Consumer<Leaf> each) {
    each.accept(this);
  }

  /** About the bytes that this row group has in the file so far: pages and what waits. */
  final long buffered() {
    return pages.getMemSize() + waiting() + 4L * entries();
  }

  /** Bytes in memory. */
  final long held() {
    return pages.getMemSize() + room() + definitions.room() + repetitions.room();
  }

  /** Let go of all memory, between two row groups. */
  final void shrink() {
    release();
    definitions.release();
    repetitions.release();
  }

  final boolean isFull() {
    return rows >= limits.pageRows() || waiting() >= limits.pageBytes();
  }

  private long waiting() {
    return bytes() + definitions.count();
  }

  /** Write what waits as a page. */
  final void page() throws IOException {
    if (rows == 0) {
      return;
    }
    BytesInput values = null;
    Encoding encoding = Encoding.PLAIN;
    int telling = count() > 0 && isOne() ? 1 : count(); // the first of them say all
    if (encodes && count() > 0) {
      values = numbered(telling);
      encoding = Encoding.PLAIN_DICTIONARY;
    }
    if (values == null) {
      values = plain();
      encoding = Encoding.PLAIN;
    }
    Statistics<?> statistics = Statistics.createStats(type);
    int entries = definitions.count();
    if (entries > count()) {
      statistics.incrementNumNulls((long) entries - count());
    }
    if (count() > 0) {
      describe(statistics, telling);
      first = false;
    }
    BytesInput page = BytesInput.concat(repetitions.page(), definitions.page(), values);
    Encoding repeated = descriptor.getMaxRepetitionLevel() == 0 ? Encoding.BIT_PACKED : Encoding.RLE;
    Encoding defined = definition == 0 ? Encoding.BIT_PACKED : Encoding.RLE;
    pages.writePage(page, entries, rows, statistics, repeated, defined, encoding);
    definitions.clear();
    repetitions.clear();
    clear();
    written += entries;
    rows = 0;
  }

  /** Write the dictionary, behind the last page; the file has it before the first. */
  final void end() throws IOException {
    if (entries() > 0 && !first) {
      pages.writeDictionaryPage(new DictionaryPage(dictionary(), entries(), Encoding.PLAIN_DICTIONARY));
    }
    pages = null;
  }

  private BytesInput numbered(int telling) throws IOException {
    int[] numbers = limits.numbers(count());
    if (!number(numbers, telling, first)) {
      encodes = false;
      if (first) {
        forget();
      }
      return null;
    }
    int width = Integer.SIZE - Integer.numberOfLeadingZeros(Math.max(entries() - 1, 0));
    BytesInput encoded = indexes(numbers, telling, width);
    if (first && encoded.size() + dictionaryBytes() >= bytes()) {
      encodes = false;
      forget();
      return null;
    }
    return BytesInput.concat(BytesInput.from(new byte[] {(byte) width}), encoded);
  }

  private BytesInput indexes(int[] numbers, int telling, int width) throws IOException {
    int count = count();
    if (telling == 1 && count >= RUN) {
      return Levels.run(numbers[0], count, width);
    }
    Arrays.fill(numbers, telling, count, numbers[0]);
    HeapByteBufferAllocator heap = HeapByteBufferAllocator.getInstance();
    int about = Math.max(64, (int) ((long) count * Math.max(width, 1) / 8) + 64);
    try (RunLengthBitPackingHybridEncoder encoder =
        new RunLengthBitPackingHybridEncoder(width, about, about, heap)) {
      for (int i = 0; i < count; i++) {
        encoder.writeInt(numbers[i]);
      }
      return BytesInput.copy(encoder.toBytes());
    }
  }

  static byte[] grown(byte[] bytes, int needed) {
    return needed <= bytes.length ? bytes : Arrays.copyOf(bytes, Math.max(needed, 2 * bytes.length));
  }
}
