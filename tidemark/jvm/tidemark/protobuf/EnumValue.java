package tidemark.protobuf;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.unsafe.types.UTF8String;

/** Names of numbers; a number without one is its digits. */
final class EnumValue extends NumericValue {
  private static final int FEW = 256;

  private final UTF8String[] first; // by number
  private final Map<Long, UTF8String> others = new HashMap<>();

  EnumValue(JsonNode names) {
    super(Kind.ENUM);
    int longest = 0;
    for (var name : names.properties()) {
      long number = Long.parseLong(name.getKey());
      others.put(number, UTF8String.fromString(name.getValue().asText()));
      longest = number >= 0 && number < FEW ? Math.max(longest, (int) number + 1) : longest;
    }
    first = new UTF8String[longest];
    Arrays.setAll(first, number -> others.get((long) number));
  }

  @Override
  Object object(long number) {
    UTF8String name = number >= 0 && number < first.length ? first[(int) number] : others.get(number);
    return name == null ? UTF8String.fromString(Long.toString(number)) : name;
  }
}
