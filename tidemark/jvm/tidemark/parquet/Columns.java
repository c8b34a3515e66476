package tidemark.parquet;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.schema.GroupType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.Type;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** The columns of a file for rows of a Spark type; a type that is not here is left to Iceberg's own writer. */
final class Columns {
  private final MessageType message;
  private final Limits limits;
  private final List<String> path = new ArrayList<>();

  private Columns(MessageType message, Limits limits) {
    this.message = message;
    this.limits = limits;
  }

  /** Empty where a type of `rows` is not known here, or two columns have one name in the file. */
  static Optional<Nested.Struct> of(StructType rows, MessageType message, Limits limits) {
    long names = message.getColumns().stream().map(each -> List.of(each.getPath())).distinct().count();
    if (names < message.getColumns().size()) {
      return Optional.empty();
    }
    try {
      Columns columns = new Columns(message, limits);
      return Optional.of(new Nested.Struct(0, false, columns.fields(rows, message)));
    } catch (Unknown unknown) {
      return Optional.empty();
    }
  }

  private Node[] fields(StructType rows, GroupType group) {
    StructField[] fields = rows.fields();
    if (fields.length != group.getFieldCount()) {
      throw new Unknown();
    }
    Node[] nodes = new Node[fields.length];
    for (int i = 0; i < fields.length; i++) {
      nodes[i] = node(fields[i].dataType(), group.getType(i));
    }
    return nodes;
  }

  private Node node(DataType type, Type field) {
    path.add(field.getName());
    try {
      return field.isPrimitive() ? leaf(type, field.asPrimitiveType()) : nested(type, field.asGroupType());
    } finally {
      path.remove(path.size() - 1);
    }
  }

  private Node nested(DataType type, GroupType group) {
    int definition = message.getMaxDefinitionLevel(here());
    boolean optional = group.isRepetition(Type.Repetition.OPTIONAL);
    if (type instanceof StructType rows) {
      return new Nested.Struct(definition, optional, fields(rows, group));
    }
    if (!(type instanceof ArrayType || type instanceof MapType) || group.getFieldCount() != 1) {
      throw new Unknown();
    }
    GroupType repeated = group.getType(0).asGroupType();
    path.add(repeated.getName());
    int again = message.getMaxRepetitionLevel(here());
    Node made;
    if (type instanceof ArrayType list) {
      made = new Nested.Repeated(definition, optional, again, node(list.elementType(), repeated.getType(0)));
    } else {
      MapType map = (MapType) type;
      Node key = node(map.keyType(), repeated.getType(0));
      made = new Nested.Entries(definition, optional, again, key, node(map.valueType(), repeated.getType(1)));
    }
    path.remove(path.size() - 1);
    return made;
  }

  private Leaf leaf(DataType type, PrimitiveType primitive) {
    ColumnDescriptor column = message.getColumnDescription(here());
    boolean optional = primitive.isRepetition(Type.Repetition.OPTIONAL);
    LogicalTypeAnnotation means = primitive.getLogicalTypeAnnotation();
    switch (primitive.getPrimitiveTypeName()) {
      case BOOLEAN:
        require(type instanceof BooleanType);
        return new Booleans(column, optional, limits);
      case FLOAT:
        require(type instanceof FloatType);
        return new Numbers.Floats(column, optional, limits);
      case DOUBLE:
        require(type instanceof DoubleType);
        return new Numbers.Doubles(column, optional, limits);
      case INT32:
        if (means instanceof DecimalLogicalTypeAnnotation shape) {
          return new Numbers.Decimals(column, optional, limits, Integer.BYTES, shape(type, shape));
        }
        require(type instanceof IntegerType || type instanceof DateType);
        return new Numbers.Ints(column, optional, limits);
      case INT64:
        if (means instanceof DecimalLogicalTypeAnnotation shape) {
          return new Numbers.Decimals(column, optional, limits, Long.BYTES, shape(type, shape));
        }
        require(type instanceof LongType || isTime(type));
        return new Numbers.Longs(column, optional, limits);
      case BINARY:
        if (type instanceof StringType) {
          require(means instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation);
          return new Bytes.Strings(column, optional, limits);
        }
        require(type instanceof BinaryType && means == null);
        return new Bytes.Binaries(column, optional, limits);
      case FIXED_LEN_BYTE_ARRAY:
        if (means instanceof DecimalLogicalTypeAnnotation shape) {
          return new Bytes.Decimals(column, optional, limits, shape(type, shape));
        }
        require(type instanceof BinaryType && means == null);
        return new Bytes.Binaries(column, optional, limits);
      default:
        throw new Unknown();
    }
  }

  private static boolean isTime(DataType type) {
    return type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  private static DecimalShape shape(DataType type, DecimalLogicalTypeAnnotation shape) {
    require(type instanceof DecimalType);
    return new DecimalShape(shape.getPrecision(), shape.getScale());
  }

  private static void require(boolean known) {
    if (!known) {
      throw new Unknown();
    }
  }

  private String[] here() {
    return path.toArray(new String[0]);
  }

  private static final class Unknown extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }
}
