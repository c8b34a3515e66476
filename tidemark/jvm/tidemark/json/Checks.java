package tidemark.json;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Record;

/** What a JSON Schema says of one place besides its type, see `tidemark/engine/decode/json_checks.py`. */
final class Checks {
  private Checks() {}

  /** The reader with the checks that are said of its place. */
  static Reader around(Reader reader, JsonNode said) {
    Reader found = reader;
    if (found instanceof NumberReader numbers) {
      numbers.bounds = Bounds.of(said);
    }
    if (found instanceof DecimalReader decimals) {
      decimals.limit(Bounds.of(said));
    }
    if (said.has("enum") || said.has("least")) {
      found = sized(found, said);
    }
    return said.path("null").asBoolean(true) ? found : notNull(found);
  }

  /** Passes all on to another reader. */
  private abstract static class Around extends Reader {
    private final Reader reader;

    Around(Reader reader) {
      this.reader = reader;
    }

    abstract void before(Input in);

    abstract void after(Input in, Object found);

    @Override
    Object object(Input in) {
      before(in);
      Object found = reader.object(in);
      after(in, found);
      return found;
    }

    @Override
    void into(Input in, Record row, int field) {
      if (reader instanceof NumberReader || reader instanceof Around) {
        before(in);
        reader.into(in, row, field);
        after(in, null);
      } else {
        super.into(in, row, field);
      }
    }
  }

  private static Reader notNull(Reader reader) {
    return new Around(reader) {
      @Override
      void before(Input in) {
        in.isInvalid |= in.next() == 'n';
      }

      @Override
      void after(Input in, Object found) {}
    };
  }

  /** One of some texts, texts of so many characters, or lists of so many elements. */
  private static Reader sized(Reader reader, JsonNode said) {
    int least = said.path("least").asInt(0);
    int most = said.path("most").asInt(Integer.MAX_VALUE);
    Set<UTF8String> texts = new HashSet<>();
    said.path("enum").forEach(text -> texts.add(UTF8String.fromString(text.asText())));
    boolean isOneOf = said.has("enum");
    return new Around(reader) {
      private boolean isText;

      @Override
      void before(Input in) {
        isText = in.next() == '"';
      }

      @Override
      void after(Input in, Object found) {
        if (isText) {
          UTF8String text = in.lastText();
          int size = text.numChars();
          in.isInvalid |= isOneOf && !texts.contains(text) || size < least || size > most;
        } else if (found instanceof ArrayData list) {
          in.isInvalid |= list.numElements() < least || list.numElements() > most;
        }
      }
    };
  }

  /** Of numbers; null on a side that is open. */
  record Bounds(BigDecimal least, boolean isLeastOut, BigDecimal most, boolean isMostOut) {
    static Bounds of(JsonNode said) {
      BigDecimal least = number(said, "minimum");
      BigDecimal most = number(said, "maximum");
      BigDecimal below = number(said, "exclusiveMinimum");
      BigDecimal above = number(said, "exclusiveMaximum");
      boolean isLeastOut = below != null && (least == null || below.compareTo(least) >= 0);
      boolean isMostOut = above != null && (most == null || above.compareTo(most) <= 0);
      if (least == null && most == null && below == null && above == null) {
        return null;
      }
      return new Bounds(isLeastOut ? below : least, isLeastOut, isMostOut ? above : most, isMostOut);
    }

    private static BigDecimal number(JsonNode said, String keyword) {
      return said.has(keyword) ? new BigDecimal(said.get(keyword).asText()) : null;
    }

    boolean hold(Numeral numeral) {
      int enough = least == null ? 1 : numeral.compareTo(least);
      int excess = most == null ? -1 : numeral.compareTo(most);
      return (isLeastOut ? enough > 0 : enough >= 0) && (isMostOut ? excess < 0 : excess <= 0);
    }
  }
}
