package tidemark.parquet;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.column.statistics.Statistics;
import org.apache.iceberg.shaded.org.apache.parquet.io.api.Binary;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Record;

/** A column of strings, bytes, or long decimals: what waits lies there as Parquet's plain encoding has it. */
abstract class Bytes extends Leaf {
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle ORDERED =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
  private static final int FIRST = 64;
  private static final int BEYOND = 16; // bytes of room behind the last value, which is read and written by longs

  private final int length; // of every value, or 0 where each says its own
  private final int prefix; // bytes that say it
  private final BytesDictionary dictionary;
  byte[] body = new byte[FIRST];
  int end;
  private int count;
  private int least = -1; // where the least value of the page begins
  private int leastSize;
  private long leastFirst = Long.MAX_VALUE; // its first bytes as a number
  private int most = -1;
  private int mostSize;
  private long mostFirst = Long.MIN_VALUE;
  private boolean isDescribed; // of all values, while they were numbered
  UTF8String only; // the value of all: it lies there once, and `end` is where they would

  Bytes(ColumnDescriptor descriptor, boolean optional, Limits limits) {
    super(descriptor, optional, limits);
    this.length = type.getTypeLength();
    this.prefix = length == 0 ? Integer.BYTES : 0;
    this.dictionary = new BytesDictionary(length, limits.dictionaryBytes());
  }

  /** Room for a value of `size` bytes; gives where it goes. */
  final int place(int size) {
    if (length != 0 && size != length) {
      throw new IllegalArgumentException(size + " bytes for a column of " + length);
    }
    int at = place(end, size);
    placed(1, at + size);
    return at;
  }

  /** Room for a value of `size` bytes and its length, which go `to` there; gives where the value itself goes. */
  final int place(int to, int size) {
    body = grown(body, Math.addExact(Math.addExact(to, size), prefix + BEYOND));
    if (prefix > 0) {
      INT.set(body, to, size);
    }
    return to + prefix;
  }

  /** So many values more are in their places, up to `until`. */
  final void placed(int values, int until) {
    limits.took(until - end - values * prefix);
    end = until;
    count += values;
    if (end >= limits.pageBytes()) {
      limits.over();
    }
  }

  /** From now on each value lies there. */
  final void unfold() {
    if (only == null) {
      return;
    }
    body = grown(body, Math.addExact(end, BEYOND));
    int done = prefix + only.numBytes();
    while (done < end) {
      int more = Math.min(done, end - done);
      System.arraycopy(body, 0, body, done, more);
      done += more;
    }
    only = null;
  }

  final int size(int at) {
    return length == 0 ? (int) INT.get(body, at) : length;
  }

  @Override
  final int count() {
    return count;
  }

  @Override
  final long bytes() {
    return end;
  }

  @Override
  final int entries() {
    return dictionary.entries();
  }

  @Override
  final boolean isOne() {
    return only != null;
  }

  @Override
  final boolean number(int[] into, int values, boolean firstPage) {
    int at = 0;
    dictionary.turnPage();
    for (int i = 0; i < values; i++) {
      int size = size(at);
      into[i] = dictionary.number(body, at + prefix, size);
      if (into[i] < 0) {
        return false;
      }
      if (dictionary.isFirstOfPage(into[i])) {
        widen(at + prefix, size);
      }
      at += prefix + size;
      if (isUseless(i, firstPage)) {
        return false;
      }
    }
    isDescribed = true;
    return true;
  }

  @Override
  final BytesInput plain() {
    unfold();
    return BytesInput.from(body, 0, end);
  }

  @Override
  final long dictionaryBytes() {
    return dictionary.bytes();
  }

  @Override
  final BytesInput dictionary() {
    return dictionary.page();
  }

  @Override
  final void describe(Statistics<?> statistics, int values) {
    int at = 0;
    for (int i = 0; i < values && !isDescribed; i++) {
      int size = size(at);
      widen(at + prefix, size);
      at += prefix + size;
    }
    statistics.updateStats(copy(least, leastSize));
    statistics.updateStats(copy(most, mostSize));
  }

  private void widen(int from, int size) {
    long value = first(from, size);
    if (value <= leastFirst && (least < 0 || compare(from, size, least, leastSize) < 0)) {
      least = from;
      leastSize = size;
      leastFirst = value;
    }
    if (value >= mostFirst && (most < 0 || compare(from, size, most, mostSize) > 0)) {
      most = from;
      mostSize = size;
      mostFirst = value;
    }
  }

  /** Its first eight bytes, missing ones as zeros, as a number: never less than that of a lesser value. */
  long first(int from, int size) {
    long bytes = (long) ORDERED.get(body, from);
    long value = size < Long.BYTES ? bytes & ~(-1L >>> Byte.SIZE * size) : bytes;
    return value ^ Long.MIN_VALUE; // bytes are unsigned
  }

  private Binary copy(int from, int size) {
    return Binary.fromConstantByteArray(Arrays.copyOfRange(body, from, from + size));
  }

  /** In the order of the column's type. */
  int compare(int one, int oneSize, int other, int otherSize) {
    return Arrays.compareUnsigned(body, one, one + oneSize, body, other, other + otherSize);
  }

  @Override
  final void clear() {
    if (body.length > 4L * limits.pageBytes()) { // after a value beyond all measure
      body = new byte[FIRST];
    }
    end = 0;
    count = 0;
    least = -1;
    leastFirst = Long.MAX_VALUE;
    most = -1;
    mostFirst = Long.MIN_VALUE;
    isDescribed = false;
    only = null;
  }

  @Override
  final long room() {
    return body.length + dictionary.room();
  }

  @Override
  final void release() {
    body = new byte[FIRST];
    dictionary.release();
  }

  @Override
  final void forget() {
    dictionary.clear();
  }

  /** string. */
  static final class Strings extends Bytes {
    Strings(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      unfold();
      placed(1, put(from, ordinal, end));
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      int alike = count > 0 && (count() == 0 || only != null) ? takeAlike(rows, count, ordinal) : 0;
      if (alike == count) {
        return;
      }
      unfold();
      int until = end;
      for (int i = alike; i < count; i++) {
        until = put(rows[i], ordinal, until);
      }
      placed(count - alike, until);
    }

    /** Counts the first rows whose value is the same object as all before in the page; gives how many they are. */
    private int takeAlike(SpecializedGetters[] rows, int count, int ordinal) {
      if (only == null) {
        only = rows[0].getUTF8String(ordinal);
        put(only, 0);
      }
      int alike = 0;
      while (alike < count && rows[alike].getUTF8String(ordinal) == only) {
        alike++;
      }
      placed(alike, Math.addExact(end, Math.multiplyExact(alike, Integer.BYTES + only.numBytes())));
      return alike;
    }

    /** Gives where the next value goes. */
    private int put(SpecializedGetters row, int ordinal, int to) {
      return row instanceof Record record && record.isBare(ordinal)
          ? put(record.bytes(), record.from(ordinal), record.size(ordinal), to)
          : put(row.getUTF8String(ordinal), to);
    }

    private int put(UTF8String value, int to) {
      int size = value.numBytes();
      if (value.getBaseObject() instanceof byte[] bytes) { // as it nearly always is: half of what the other way costs
        return put(bytes, (int) (value.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET), size, to);
      }
      int at = place(to, size);
      value.writeToMemory(body, Platform.BYTE_ARRAY_OFFSET + at);
      return at + size;
    }

    private int put(byte[] bytes, int from, int size, int to) {
      int at = place(to, size);
      if (size <= BEYOND && from <= bytes.length - BEYOND) {
        LONG.set(body, at, (long) LONG.get(bytes, from));
        LONG.set(body, at + Long.BYTES, (long) LONG.get(bytes, from + Long.BYTES));
      } else {
        System.arraycopy(bytes, from, body, at, size);
      }
      return at + size;
    }
  }

  /** binary and fixed. */
  static final class Binaries extends Bytes {
    Binaries(ColumnDescriptor descriptor, boolean optional, Limits limits) {
      super(descriptor, optional, limits);
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      byte[] value = from.getBinary(ordinal);
      int at = place(value.length); // before `body` is named, which it may replace
      System.arraycopy(value, 0, body, at, value.length);
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      for (int i = 0; i < count; i++) {
        take(rows[i], ordinal);
      }
    }
  }

  /** Decimals of more than 18 digits: big-endian, of one length, ordered by their value. */
  static final class Decimals extends Bytes {
    private final DecimalShape shape;

    Decimals(ColumnDescriptor descriptor, boolean optional, Limits limits, DecimalShape shape) {
      super(descriptor, optional, limits);
      this.shape = shape;
    }

    @Override
    void take(SpecializedGetters from, int ordinal) {
      byte[] digits = shape.of(from, ordinal).toJavaBigDecimal().unscaledValue().toByteArray();
      int size = type.getTypeLength();
      int at = place(size);
      Arrays.fill(body, at, at + size - digits.length, (byte) (digits[0] < 0 ? -1 : 0));
      System.arraycopy(digits, 0, body, at + size - digits.length, digits.length);
    }

    @Override
    void takeAll(SpecializedGetters[] rows, int count, int ordinal) {
      for (int i = 0; i < count; i++) {
        take(rows[i], ordinal);
      }
    }

    /** The highest bit is the sign. */
    @Override
    long first(int from, int size) {
      return super.first(from, size) ^ Long.MIN_VALUE;
    }

    @Override
    int compare(int one, int oneSize, int other, int otherSize) {
      int sign = Byte.compare(body[one], body[other]);
      boolean alike = (body[one] < 0) == (body[other] < 0);
      return alike ? super.compare(one, oneSize, other, otherSize) : sign;
    }
  }
}
