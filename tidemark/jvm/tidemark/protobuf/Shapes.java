package tidemark.protobuf;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;

/** Makes what reads a message, of what `tidemark/engine/decode/protobuf_fields.py` says and the columns' types. */
final class Shapes {
  private static final int[][] NONE = {{}, {}};

  private final JsonNode messages;
  private final JsonNode enums;

  Shapes(JsonNode said) {
    messages = said.get("messages");
    enums = said.get("enums");
  }

  RecordValue root(StructType type) {
    return message(messages.get(0), type);
  }

  private RecordValue message(JsonNode message, StructType type) {
    return new RecordValue(shape(message, type), type.length());
  }

  private Shape shape(JsonNode message, StructType struct) {
    JsonNode said = message.get("fields");
    int[] ordinals = IntStream.range(0, said.size()).map(i -> ordinal(said.get(i), struct)).toArray();
    Field[] fields = new Field[said.size()];
    for (int i = 0; i < fields.length; i++) {
      fields[i] = field(said, i, ordinals, struct.fields()[ordinals[i]].dataType());
    }
    return new Shape(fields);
  }

  private static int ordinal(JsonNode field, StructType struct) {
    return struct.fieldIndex(field.get("name").asText());
  }

  private Field field(JsonNode fields, int index, int[] ordinals, DataType type) {
    JsonNode said = fields.get(index);
    int number = said.get("number").asInt();
    int ordinal = ordinals[index];
    if (said.has("key") && type instanceof MapType map) {
      Value key = value(said.get("key"), map.keyType());
      return new Entries(index, ordinal, number, key, value(said, map.valueType()));
    }
    if (said.has("repeated") && type instanceof ArrayType list) {
      return new Listed(index, ordinal, number, value(said, list.elementType()));
    }
    int[][] others = said.has("oneof") ? others(fields, index, ordinals) : NONE;
    return new Single(index, ordinal, number, value(said, type), presence(said), others);
  }

  private static Single.Presence presence(JsonNode said) {
    if (said.has("required")) {
      return Single.Presence.REQUIRED;
    }
    return said.has("default") ? Single.Presence.DEFAULTED : Single.Presence.OPTIONAL;
  }

  /** The other fields of its oneof: where they are in a Tree, and in a row. */
  private static int[][] others(JsonNode fields, int index, int[] ordinals) {
    JsonNode oneof = fields.get(index).get("oneof");
    int[] indexes =
        IntStream.range(0, fields.size())
            .filter(i -> i != index && oneof.equals(fields.get(i).get("oneof")))
            .toArray();
    return new int[][] {indexes, IntStream.of(indexes).map(i -> ordinals[i]).toArray()};
  }

  private Value value(JsonNode said, DataType type) {
    String kind = said.get("type").asText();
    switch (kind) {
      case "string":
        return known(new TextValue(said.has("utf8")), type instanceof StringType);
      case "bytes":
        return known(new BytesValue(), type instanceof BinaryType);
      case "enum":
        return known(new EnumValue(enums.get(said.get("of").asInt())), type instanceof StringType);
      case "message":
        return message(messages.get(said.get("of").asInt()), type);
      default:
        return number(Kind.valueOf(kind.toUpperCase(Locale.ROOT)), type);
    }
  }

  private static Value number(Kind kind, DataType type) {
    if (kind == Kind.UINT64 || kind == Kind.FIXED64) {
      return new DecimalValue(kind, (DecimalType) type);
    }
    return known(new NumberValue(kind, type), NumberValue.isColumnOf(kind, type));
  }

  private Value message(JsonNode message, DataType type) {
    switch (message.path("as").asText("struct")) {
      case "timestamp":
        return known(new TimeValue(times(), false), type instanceof TimestampType);
      case "timestamp_nanos":
        return known(new TimeValue(times(), true), type instanceof LongType);
      case "empty":
        return known(new EmptyValue(new Shape(new Field[0])), type instanceof BooleanType);
      case "wrapper":
        Value value = value(message.get("fields").get(0), type);
        return new WrapperValue(new Shape(new Field[] {single(0, value)}), value);
      default:
        return message(message, (StructType) type);
    }
  }

  private static Shape times() {
    return new Shape(
        new Field[] {
          single(0, new NumberValue(Kind.INT64, DataTypes.LongType)),
          single(1, new NumberValue(Kind.INT64, DataTypes.LongType))
        });
  }

  private static Field single(int index, Value value) {
    return new Single(index, index, index + 1, value, Single.Presence.DEFAULTED, NONE);
  }

  /** Else the table does not cover the message, which was looked at before. */
  private static Value known(Value value, boolean isKnown) {
    if (!isKnown) {
      throw new AssertionError(value.getClass() + " for a column of another type");
    }
    return value;
  }
}
