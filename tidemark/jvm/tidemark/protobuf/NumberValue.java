package tidemark.protobuf;

import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import tidemark.decode.Record;

/** Numbers that go into a row as their bits, and are objects in lists and maps alone. */
final class NumberValue extends NumericValue {
  private final DataType type;
  private final boolean isWidened;

  NumberValue(Kind kind, DataType type) {
    super(kind);
    this.type = type;
    this.isWidened = kind == Kind.FLOAT && type instanceof DoubleType;
  }

  static boolean isColumnOf(Kind kind, DataType type) {
    switch (kind) {
      case BOOL:
        return type instanceof BooleanType;
      case FLOAT:
        return type instanceof FloatType || type instanceof DoubleType;
      case DOUBLE:
        return type instanceof DoubleType;
      case INT32:
      case SINT32:
      case SFIXED32:
        return type instanceof IntegerType || type instanceof LongType;
      default:
        return type instanceof LongType;
    }
  }

  private long bits(long number) {
    return isWidened ? Double.doubleToRawLongBits(Float.intBitsToFloat((int) number)) : number;
  }

  @Override
  void read(Input in, Record row, int ordinal) {
    row.number(ordinal, bits(number(in)));
  }

  @Override
  void store(Object parsed, Record row, int ordinal) {
    row.number(ordinal, bits((Long) parsed));
  }

  @Override
  Object object(long number) {
    long bits = bits(number);
    if (type instanceof LongType) {
      return bits;
    }
    if (type instanceof IntegerType) {
      return (int) bits;
    }
    if (type instanceof DoubleType) {
      return Double.longBitsToDouble(bits);
    }
    if (type instanceof FloatType) {
      return Float.intBitsToFloat((int) bits);
    }
    return bits != 0;
  }
}
