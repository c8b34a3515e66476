package tidemark.decode;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGettersReader;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.GeographyVal;
import org.apache.spark.unsafe.types.GeometryVal;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * A decoded record, or a struct in it, as a row of Spark: numbers lie in one array, so that none is an object, and texts
 * where they were read until one is asked for.
 */
public final class Record extends InternalRow {
  private static final long serialVersionUID = 1L;

  /** In place of an object; an enum, so that it is the same one after a row was sent. */
  private enum Elsewhere {
    NUMBER,
    TEXT
  }

  private final long[] numbers; // of a text where it begins and its size
  private final Object[] objects; // null for NULL
  private final byte[] bytes; // in which texts lie
  private int fields;
  private boolean lasts;

  public Record(int fields) {
    this(fields, false);
  }

  public Record(int fields, boolean lasts) {
    this(new long[fields], new Object[fields], null, fields, lasts);
  }

  /** A row of so many fields with room for `most`, the texts of which lie in `bytes`, which stay as they are. */
  public Record(int fields, int most, byte[] bytes) {
    this(new long[most], new Object[most], bytes, fields, false);
  }

  private Record(long[] numbers, Object[] objects, byte[] bytes, int fields, boolean lasts) {
    this.numbers = numbers;
    this.objects = objects;
    this.bytes = bytes;
    this.fields = fields;
    this.lasts = lasts;
  }

  /** This row, or where it has no room one in its place, with another number of fields: those behind are NULL. */
  public Record widened(int count, boolean toLast) {
    if (count > objects.length) {
      return new Record(Arrays.copyOf(numbers, count), Arrays.copyOf(objects, count), bytes, count, toLast);
    }
    fields = count;
    lasts = toLast;
    return this;
  }

  /** Whether it and all that it holds stay as they are when the next row comes. */
  public boolean lasts() {
    return lasts;
  }

  public void number(int ordinal, long bits) {
    numbers[ordinal] = bits;
    objects[ordinal] = Elsewhere.NUMBER;
  }

  /** A text in the record's bytes. */
  public void text(int ordinal, int from, int size) {
    numbers[ordinal] = (long) from << Integer.SIZE | size;
    objects[ordinal] = Elsewhere.TEXT;
  }

  /** Whether the text of a field lies in the record's bytes, and is no object yet. */
  public boolean isBare(int ordinal) {
    return objects[ordinal] == Elsewhere.TEXT;
  }

  /** In which bare texts lie. */
  public byte[] bytes() {
    return bytes;
  }

  /** Where a bare text begins. */
  public int from(int ordinal) {
    return (int) (numbers[ordinal] >>> Integer.SIZE);
  }

  /** The bytes of a bare text. */
  public int size(int ordinal) {
    return (int) numbers[ordinal];
  }

  @Override
  public int numFields() {
    return fields;
  }

  @Override
  public void setNullAt(int ordinal) {
    objects[ordinal] = null;
  }

  @Override
  public void update(int ordinal, Object value) {
    if (value instanceof Number || value instanceof Boolean) {
      throw new UnsupportedOperationException("a number as an object");
    }
    objects[ordinal] = value;
  }

  @Override
  public InternalRow copy() {
    Object[] copied = new Object[fields];
    for (int i = 0; i < fields; i++) {
      copied[i] = InternalRow.copyValue(objects[i]);
    }
    return new Record(Arrays.copyOf(numbers, fields), copied, bytes, fields, true);
  }

  @Override
  public boolean isNullAt(int ordinal) {
    return objects[ordinal] == null;
  }

  @Override
  public boolean getBoolean(int ordinal) {
    return numbers[ordinal] != 0;
  }

  @Override
  public byte getByte(int ordinal) {
    return (byte) numbers[ordinal];
  }

  @Override
  public short getShort(int ordinal) {
    return (short) numbers[ordinal];
  }

  @Override
  public int getInt(int ordinal) {
    return (int) numbers[ordinal];
  }

  @Override
  public long getLong(int ordinal) {
    return numbers[ordinal];
  }

  @Override
  public float getFloat(int ordinal) {
    return Float.intBitsToFloat((int) numbers[ordinal]);
  }

  @Override
  public double getDouble(int ordinal) {
    return Double.longBitsToDouble(numbers[ordinal]);
  }

  @Override
  public Decimal getDecimal(int ordinal, int precision, int scale) {
    return (Decimal) objects[ordinal];
  }

  @Override
  public UTF8String getUTF8String(int ordinal) {
    if (isBare(ordinal)) {
      objects[ordinal] = UTF8String.fromBytes(bytes, from(ordinal), size(ordinal));
    }
    return (UTF8String) objects[ordinal];
  }

  @Override
  public byte[] getBinary(int ordinal) {
    return (byte[]) objects[ordinal];
  }

  @Override
  public GeographyVal getGeography(int ordinal) {
    return (GeographyVal) objects[ordinal];
  }

  @Override
  public GeometryVal getGeometry(int ordinal) {
    return (GeometryVal) objects[ordinal];
  }

  @Override
  public CalendarInterval getInterval(int ordinal) {
    return (CalendarInterval) objects[ordinal];
  }

  @Override
  public VariantVal getVariant(int ordinal) {
    return (VariantVal) objects[ordinal];
  }

  @Override
  public InternalRow getStruct(int ordinal, int fields) {
    return (InternalRow) objects[ordinal];
  }

  @Override
  public ArrayData getArray(int ordinal) {
    return (ArrayData) objects[ordinal];
  }

  @Override
  public MapData getMap(int ordinal) {
    return (MapData) objects[ordinal];
  }

  @Override
  public Object get(int ordinal, DataType type) {
    return SpecializedGettersReader.read(this, ordinal, type, true, true);
  }
}
