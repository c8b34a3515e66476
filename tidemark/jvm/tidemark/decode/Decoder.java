package tidemark.decode;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import tidemark.json.JsonFormat;
import tidemark.protobuf.ProtobufFormat;

/**
 * What a Python function of `engine/decode/on_executors.py` does, read off its name: struct&lt;cause, row&gt; of
 * a value written with the schema of an id.
 *
 * <p>The name is written by `tidemark/engine/decode/on_server.py`, which gives none to what is not known here.
 */
public final class Decoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String NAME = "tidemark_decode_1"; // with the number of the form that is read here

  private final String name;
  private final StructType type;
  private transient Map<Integer, Format> writers;
  private transient int header;
  private transient int lastId;
  private transient Format last;

  private Decoder(String name, StructType type) {
    this.name = name;
    this.type = type;
  }

  /** Null where the function's name says nothing. */
  public static Decoder of(String name, StructType type) {
    return name.startsWith(NAME + "{") ? new Decoder(name, type) : null;
  }

  /** NULLs for NULL. */
  public InternalRow decode(byte[] value, int id) {
    Record answer = new Record(2);
    if (value == null) {
      return answer;
    }
    Format writer = writer(id);
    try {
      answer.update(1, writer.row(value, header));
    } catch (Fault fault) {
      answer.update(0, fault.cause);
    } catch (RuntimeException | StackOverflowError damaged) {
      answer.update(0, Fault.UNDECODABLE.cause);
    }
    return answer;
  }

  private Format writer(int id) {
    if (writers == null) {
      read();
    }
    if (last == null || lastId != id) {
      last = writers.get(id);
      lastId = id;
    }
    return last;
  }

  private void read() {
    JsonNode said;
    try {
      said = new ObjectMapper().readTree(name.substring(NAME.length()));
    } catch (JsonProcessingException unreadable) {
      throw new IllegalStateException(unreadable);
    }
    StructType row = (StructType) type.fields()[1].dataType();
    Map<Integer, Format> found = new HashMap<>();
    said.get("writers")
        .properties()
        .forEach(
            writer -> {
              JsonNode of = writer.getValue();
              Format format =
                  of.has("json")
                      ? new JsonFormat(of.get("json"), of.has("schema"), row)
                      : new ProtobufFormat(of.get("protobuf"), row);
              found.put(Integer.valueOf(writer.getKey()), format);
            });
    header = said.get("header").asInt();
    writers = found;
  }

  /** In plans: what it stands for. */
  @Override
  public String toString() {
    return "tidemark_decode";
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Decoder decoder && name.equals(decoder.name) && type.equals(decoder.type);
  }

  @Override
  public int hashCode() {
    return name.hashCode();
  }
}
