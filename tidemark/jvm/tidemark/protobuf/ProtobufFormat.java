package tidemark.protobuf;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import tidemark.decode.Fault;
import tidemark.decode.Format;

/**
 * One message type of Protobuf, behind its message index.
 *
 * <p>Well-formed values of the schema become rows in one pass. All others are read once more: as protobuf's own decoder
 * does it.
 */
public final class ProtobufFormat implements Format {
  private static final int DEEPEST = 100;

  private final byte[][] prefixes;
  private final RecordValue root;

  public ProtobufFormat(JsonNode said, StructType type) {
    prefixes =
        StreamSupport.stream(said.get("prefixes").spliterator(), false)
            .map(prefix -> HexFormat.of().parseHex(prefix.asText()))
            .toArray(byte[][]::new);
    root = new Shapes(said).root(type);
  }

  @Override
  public InternalRow row(byte[] value, int from) {
    int start = Math.min(from, value.length);
    for (byte[] prefix : prefixes) {
      int end = start + prefix.length;
      if (end <= value.length && Arrays.equals(value, start, end, prefix, 0, prefix.length)) {
        return message(value, end);
      }
    }
    throw MessageIndex.isAt(value, start) ? Fault.WRONG_MESSAGE : Fault.UNDECODABLE;
  }

  private InternalRow message(byte[] value, int from) {
    try {
      return root.whole(new Input(value, from));
    } catch (RuntimeException notPlain) {
      return parsed(value, from);
    }
  }

  /** First what the bytes are, then what is missing, then each field in the schema's order. */
  private InternalRow parsed(byte[] value, int from) {
    Tree tree = root.unset();
    root.shape.parse(new Input(value, from), tree, DEEPEST);
    if (!root.isComplete(tree)) {
      throw Fault.INVALID;
    }
    root.check(tree);
    return root.object(tree);
  }
}
