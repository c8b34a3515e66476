package tidemark.avro;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import tidemark.decode.Record;

/**
 * What Spark's `from_avro` does in its mode PERMISSIVE, in one pass from bytes to a row.
 *
 * <p>Spark reads a tree of Avro objects first and makes a row of it then. The answers are the same, also for damaged
 * values: a row of NULLs. Where bytes are put behind every value for a last field to show that it was read to its
 * end, they need not be there: they are told.
 */
public final class AvroDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String schema;
  private final StructType type;
  private final byte[] behind; // each value, as if it were there
  private final int inner; // a field whose rows have room
  private final int room; // for so many, or 0
  private final transient Reader reader;

  private AvroDecoder(String schema, StructType type, byte[] behind, int inner, int room) {
    this.schema = schema;
    this.type = type;
    this.behind = behind;
    this.inner = inner;
    this.room = room;
    this.reader = reader();
  }

  /** Null where the schema has what is left to Spark; where bytes are `behind`, also where its last field is not they. */
  public static AvroDecoder of(String schema, StructType type, byte... behind) {
    try {
      return new AvroDecoder(schema, type, behind, 0, 0);
    } catch (Readers.Unknown unknown) {
      return null;
    }
  }

  /** One that gives the rows in a field room for so many columns; null where that holds no records, or not always. */
  public AvroDecoder widened(int field, int most) {
    AvroDecoder made = new AvroDecoder(schema, type, behind, field, most);
    return made.reader instanceof Reader.Fields whole && whole.hasRecords(field) ? made : null;
  }

  private Reader reader() {
    Schema parsed = new Schema.Parser().setValidateDefaults(false).parse(schema);
    Reader made = behind.length == 0 ? Readers.of(parsed, type) : Readers.ending(parsed, type, behind);
    if (room > 0 && made instanceof Reader.Fields whole) {
      whole.widen(inner, room);
    }
    return made;
  }

  private Object readResolve() {
    return new AvroDecoder(schema, type, behind, inner, room);
  }

  public InternalRow decode(byte[] value) {
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
    return other instanceof AvroDecoder decoder
        && schema.equals(decoder.schema)
        && type.equals(decoder.type)
        && Arrays.equals(behind, decoder.behind)
        && inner == decoder.inner
        && room == decoder.room;
  }

  @Override
  public int hashCode() {
    return schema.hashCode();
  }
}
