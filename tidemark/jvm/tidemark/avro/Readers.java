package tidemark.avro;

import java.util.List;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** The reader of a schema, for the types that Spark's `from_avro` gives to it. */
final class Readers {
  private Readers() {}

  /** A schema or type that is left to Spark. */
  static final class Unknown extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  static Reader of(Schema schema, DataType type) {
    switch (schema.getType()) {
      case NULL:
        return known(type instanceof NullType, Reader.NULL);
      case BOOLEAN:
        return known(type instanceof BooleanType, NumberReader.BOOLEAN);
      case INT:
        return known(schema.getLogicalType() == null && type instanceof IntegerType, NumberReader.INT);
      case LONG:
        return time(schema, type);
      case FLOAT:
        return known(type instanceof FloatType, NumberReader.FLOAT);
      case DOUBLE:
        return known(type instanceof DoubleType, NumberReader.DOUBLE);
      case STRING:
        return known(schema.getLogicalType() == null && type instanceof StringType, Reader.STRING);
      case BYTES:
        return bytes(Reader.BYTES, schema, type);
      case FIXED:
        return bytes(Reader.fixed(schema.getFixedSize()), schema, type);
      case ENUM:
        return known(type instanceof StringType, Reader.symbol(schema.getEnumSymbols()));
      case ARRAY:
        known(type instanceof ArrayType, Reader.NULL);
        return Reader.list(of(schema.getElementType(), ((ArrayType) type).elementType()));
      case RECORD:
        return new Reader.Fields(fields(schema.getFields(), type));
      case UNION:
        return union(schema.getTypes(), type);
      default:
        throw new Unknown();
    }
  }

  /** A record whose last field are the bytes that are behind every value. */
  static Reader ending(Schema schema, StructType type, byte[] behind) {
    known(schema.getType() == Schema.Type.RECORD, Reader.NULL);
    Reader[] fields = fields(schema.getFields(), type);
    int last = fields.length - 1;
    Schema end = schema.getFields().get(last).schema();
    boolean same = end.getType() == Schema.Type.FIXED && end.getFixedSize() == behind.length;
    fields[last] = known(same && type.fields()[last].dataType() instanceof BinaryType, Reader.end(behind));
    return new Reader.Fields(fields);
  }

  private static Reader known(boolean known, Reader reader) {
    if (!known) {
      throw new Unknown();
    }
    return reader;
  }

  private static Reader time(Schema schema, DataType type) {
    var means = schema.getLogicalType();
    boolean zoned = type instanceof TimestampType;
    boolean local = type instanceof TimestampNTZType;
    if (means == null) {
      return known(type instanceof LongType, NumberReader.LONG);
    }
    if (means instanceof LogicalTypes.TimestampMillis && zoned
        || means instanceof LogicalTypes.LocalTimestampMillis && local) {
      return NumberReader.MILLIS;
    }
    boolean micros =
        means instanceof LogicalTypes.TimestampMicros && zoned
            || means instanceof LogicalTypes.LocalTimestampMicros && local;
    return known(micros, NumberReader.LONG);
  }

  private static Reader bytes(Reader reader, Schema schema, DataType type) {
    if (schema.getLogicalType() instanceof LogicalTypes.Decimal shape && type instanceof DecimalType decimal) {
      boolean same = shape.getPrecision() == decimal.precision() && shape.getScale() == decimal.scale();
      return known(same, Reader.decimal(reader, decimal));
    }
    return known(schema.getLogicalType() == null && type instanceof BinaryType, reader);
  }

  private static Reader[] fields(List<Schema.Field> fields, DataType type) {
    StructField[] columns = type instanceof StructType struct ? struct.fields() : new StructField[0];
    known(columns.length == fields.size(), Reader.NULL);
    Reader[] readers = new Reader[columns.length];
    for (int i = 0; i < columns.length; i++) {
      known(columns[i].name().equals(fields.get(i).name()), Reader.NULL);
      readers[i] = of(fields.get(i).schema(), columns[i].dataType());
    }
    return readers;
  }

  private static Reader union(List<Schema> branches, DataType type) {
    long values = branches.stream().filter(each -> each.getType() != Schema.Type.NULL).count();
    Reader[] readers = new Reader[branches.size()];
    int[] fields = new int[readers.length];
    int next = 0;
    boolean struct = values > 1 && type instanceof StructType;
    StructField[] columns = struct ? ((StructType) type).fields() : new StructField[0];
    known(!struct || columns.length == values, Reader.NULL);
    for (int i = 0; i < readers.length; i++) {
      Schema branch = branches.get(i);
      boolean none = branch.getType() == Schema.Type.NULL;
      fields[i] = none ? -1 : next++;
      if (none) {
        readers[i] = Reader.NULL;
      } else if (struct) {
        readers[i] = of(branch, columns[fields[i]].dataType());
      } else {
        readers[i] = values == 1 ? of(branch, type) : merged(branch, type);
      }
    }
    return struct ? Reader.union(readers, fields, columns.length) : Reader.optional(readers);
  }

  /** A union of an int and a long is a long, of a float and a double a double. */
  private static Reader merged(Schema branch, DataType type) {
    if (branch.getType() == Schema.Type.INT && type instanceof LongType) {
      return NumberReader.INT_AS_LONG;
    }
    if (branch.getType() == Schema.Type.FLOAT && type instanceof DoubleType) {
      return NumberReader.FLOAT_AS_DOUBLE;
    }
    boolean number = branch.getType() == Schema.Type.LONG || branch.getType() == Schema.Type.DOUBLE;
    return known(number, of(branch, type));
  }
}
