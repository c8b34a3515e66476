package tidemark.decode;

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

/** A decoded record, or a struct in it, as a row of Spark: numbers lie in one array, so that none is an object. */
public final class Record extends InternalRow {
  private static final long serialVersionUID = 1L;
  private static final String THERE = "number";

  private final long[] numbers;
  private final Object[] objects; // null for NULL, THERE for a number
  private final boolean lasts;

  public Record(int fields) {
    this(fields, false);
  }

  public Record(int fields, boolean lasts) {
    this(new long[fields], new Object[fields], lasts);
  }

  private Record(long[] numbers, Object[] objects, boolean lasts) {
    this.numbers = numbers;
    this.objects = objects;
    this.lasts = lasts;
  }

  /** Whether it and all that it holds stay as they are when the next row comes. */
  public boolean lasts() {
    return lasts;
  }

  public void number(int ordinal, long bits) {
    numbers[ordinal] = bits;
    objects[ordinal] = THERE;
  }

  @Override
  public int numFields() {
    return objects.length;
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
    Object[] copied = new Object[objects.length];
    for (int i = 0; i < copied.length; i++) {
      copied[i] = InternalRow.copyValue(objects[i]);
    }
    return new Record(numbers.clone(), copied, true);
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
