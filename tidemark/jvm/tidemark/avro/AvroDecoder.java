package tidemark.avro;

import java.io.Serializable;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import tidemark.decode.Record;

/**
 * What Spark's `from_avro` does in its mode PERMISSIVE, in one pass from bytes to a row.
 *
 * <p>Spark reads a tree of Avro objects first and makes a row of it then. The answers are the same, also for damaged
 * values: a row of NULLs.
 */
public final class AvroDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String schema;
  private final StructType type;
  private transient Reader reader;

  private AvroDecoder(String schema, StructType type, Reader reader) {
    this.schema = schema;
    this.type = type;
    this.reader = reader;
  }

  /** Null where the schema has what is left to Spark. */
  public static AvroDecoder of(String schema, StructType type) {
    try {
      return new AvroDecoder(schema, type, reader(schema, type));
    } catch (Readers.Unknown unknown) {
      return null;
    }
  }

  private static Reader reader(String schema, StructType type) {
    return Readers.of(new Schema.Parser().setValidateDefaults(false).parse(schema), type);
  }

  public InternalRow decode(byte[] value) {
    if (reader == null) {
      reader = reader(schema, type);
    }
    try {
      return (InternalRow) reader.object(new Input(value));
    } catch (RuntimeException malformed) {
      return new Record(type.length());
    }
  }

  /** In plans: what it stands for. */
  @Override
  public String toString() {
    return "from_avro";
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof AvroDecoder decoder && schema.equals(decoder.schema) && type.equals(decoder.type);
  }

  @Override
  public int hashCode() {
    return schema.hashCode();
  }
}
