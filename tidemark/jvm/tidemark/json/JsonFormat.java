package tidemark.json;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Fault;
import tidemark.decode.Format;
import tidemark.decode.Record;

/** JSON documents of one tree, see `tidemark/domain/formats/json_nodes.py`. */
public final class JsonFormat implements Format {
  private static final String WHOLE_VALUE = "value";
  private static final String EXTRA = "_extra";

  private final Input in;
  private final boolean hasSchema;
  private final StructType type;
  private final Shape shape; // null for plain documents
  private final boolean isObject;
  private final int value;
  private final Reader reader;

  /** With a schema, what is not valid against it is told from what does not land. */
  public JsonFormat(JsonNode said, boolean hasSchema, StructType type) {
    this.hasSchema = hasSchema;
    this.type = type;
    shape = said.has("shape") ? Shape.of(said) : null;
    in = new Input(hasSchema, shape == null ? 0 : 1);
    isObject = said.get("kind").asText().equals("object");
    value = isObject ? -1 : type.fieldIndex(WHOLE_VALUE);
    reader = reader(said, isObject ? type : type.fields()[value].dataType());
  }

  @Override
  public InternalRow row(byte[] bytes, int from) {
    if (shape == null) {
      in.begin(bytes, from);
    } else {
      in.begin(shape.shaped(bytes, from), 0);
    }
    InternalRow row;
    boolean isNullForObject = isObject && in.next() == 'n';
    if (isObject) {
      row = (InternalRow) reader.object(in);
    } else {
      Record whole = new Record(type.length());
      reader.into(in, whole, value);
      row = whole;
    }
    if (!in.isAtEnd()) {
      throw Fault.UNDECODABLE;
    }
    if (in.isInvalid || hasSchema && in.fault == Fault.TYPE_MISMATCH) {
      throw Fault.INVALID;
    }
    if (isNullForObject) {
      throw Fault.TYPE_MISMATCH;
    }
    if (in.fault != null) {
      throw in.fault;
    }
    return row;
  }

  private Reader reader(JsonNode said, DataType type) {
    Reader found = plain(said, type);
    return hasSchema ? Checks.around(found, said) : found;
  }

  private Reader plain(JsonNode said, DataType type) {
    String kind = said.get("kind").asText();
    switch (kind) {
      case "object":
        return object(said, (StructType) type);
      case "items":
        return items(reader(said.get("item"), ((ArrayType) type).elementType()));
      case "entries":
        return entries(reader(said.get("value"), ((MapType) type).valueType()));
      case "boolean":
        return NumberReader.bool();
      case "int":
        return NumberReader.integer(Integer.SIZE, type);
      case "long":
        return NumberReader.integer(Long.SIZE, type);
      case "double":
        return NumberReader.real(type);
      case "decimal":
        return new DecimalReader(said.get("precision").asInt(), said.get("scale").asInt(), (DecimalType) type);
      case "string":
        return Reader.STRING;
      case "date":
        return new DateReader();
      case "timestamp":
      case "timestamptz":
        return new TimeReader(kind.equals("timestamptz"));
      case "text":
        return Reader.text();
      case "document":
        return Reader.document();
      default:
        throw new IllegalArgumentException(kind);
    }
  }

  private Reader object(JsonNode said, StructType type) {
    List<String> fields = Arrays.asList(type.fieldNames());
    List<ObjectReader.Property> properties = new ArrayList<>();
    for (JsonNode property : said.get("properties")) {
      String name = property.get("name").asText();
      int field = fields.indexOf(name);
      DataType each = type.fields()[field].dataType();
      properties.add(new ObjectReader.Property(name, reader(property.get("node"), each), field));
    }
    boolean isOpen = said.get("open").asBoolean();
    Set<String> required = new HashSet<>();
    said.path("required").forEach(name -> required.add(name.asText()));
    return new ObjectReader(
        properties, required, hasSchema && !isOpen, type.length(), isOpen ? fields.indexOf(EXTRA) : -1);
  }

  private static Reader items(Reader item) {
    return new Reader() {
      @Override
      Object object(Input in) {
        if (in.next() != '[') {
          return in.takeNull() ? null : misplaced(in);
        }
        List<Object> found = new ArrayList<>();
        for (boolean more = in.open(']'); more; more = in.more(']')) {
          found.add(item.object(in));
        }
        return new GenericArrayData(found.toArray());
      }
    };
  }

  private static Reader entries(Reader value) {
    return new Reader() {
      @Override
      Object object(Input in) {
        if (in.next() != '{') {
          return in.takeNull() ? null : misplaced(in);
        }
        List<Object> keys = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        Set<UTF8String> seen = new HashSet<>();
        for (boolean more = in.open('}'); more; more = in.more('}')) {
          in.key();
          UTF8String key = in.lastText();
          if (!seen.add(key)) {
            throw Fault.UNDECODABLE;
          }
          keys.add(key);
          values.add(value.object(in));
        }
        return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
      }
    };
  }
}
