package tidemark.json;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigInteger;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import tidemark.decode.Fault;

/** What Kafka Connect's converter means by values, see `tidemark/engine/decode/shipped/connect_json.py`. */
final class Meaning {
  private static final String TIME = "io.debezium.time.";
  private static final String CONNECT = "org.apache.kafka.connect.data.";
  private static final Set<String> DAYS = Set.of(TIME + "Date", CONNECT + "Date");
  private static final Set<String> MILLIS_OF_DAY = Set.of(TIME + "Time", CONNECT + "Time");
  private static final Map<String, Integer> LOCAL = Map.of(TIME + "Timestamp", 1000, TIME + "MicroTimestamp", 1);
  private static final String DECIMAL = CONNECT + "Decimal";
  private static final String VARIABLE = "io.debezium.data.VariableScaleDecimal";
  private static final Set<String> NUMBERS = Set.of("decimal", "string");
  private static final Pattern INTEGER = Pattern.compile("\\s*([+-]?)([0-9](?:_?[0-9])*)\\s*");
  private static final BigInteger MOST_SCALE = BigInteger.valueOf(20_000);
  private static final int MOST_BYTES = 1 << 16;
  private static final long MILLION = 1_000_000;
  private static final BigInteger FIRST_MICROS = BigInteger.valueOf(DateReader.FIRST * 86_400 * MILLION);
  private static final BigInteger LAST_MICROS = BigInteger.valueOf((DateReader.LAST + 1) * 86_400 * MILLION - 1);

  private Meaning() {}

  /** A place of the tree. */
  record Node(String kind, Map<String, Node> properties, Node inner) {
    static Node of(JsonNode said) {
      Map<String, Node> properties = new LinkedHashMap<>();
      for (JsonNode each : said.path("properties")) {
        properties.put(each.get("name").asText(), of(each.get("node")));
      }
      JsonNode inner = said.has("item") ? said.get("item") : said.get("value");
      return new Node(said.get("kind").asText(), properties, inner == null ? null : of(inner));
    }
  }

  /** The schemas of a struct's fields by name, of several of one name the first. */
  static Map<Object, Object> fields(Object schema) {
    Map<Object, Object> found = new HashMap<>();
    if (schema instanceof Map<?, ?> map && map.get("fields") instanceof List<?> fields) {
      for (Object each : fields) {
        if (each instanceof Map<?, ?> field && field.get("field") instanceof String name) {
          found.putIfAbsent(name, each);
        }
      }
    }
    return found;
  }

  /** The value as the JSON that the node reads. */
  static Object of(Object value, Object schema, Node node) {
    if (value == null || !(schema instanceof Map<?, ?> said)) {
      return value;
    }
    switch (node.kind()) {
      case "object":
        return value instanceof Map<?, ?> map ? object(map, said, node) : value;
      case "items":
        return value instanceof List<?> list ? items(list, said.get("items"), node.inner()) : value;
      case "entries":
        return value instanceof Map<?, ?> map ? entries(map, said.get("values"), node.inner()) : value;
      default:
        return leaf(value, said, node.kind());
    }
  }

  private static Object object(Map<?, ?> value, Object schema, Node node) {
    Map<Object, Object> fields = fields(schema);
    Map<Object, Object> found = new LinkedHashMap<>(value);
    node.properties()
        .forEach(
            (name, inner) -> {
              if (value.containsKey(name)) {
                found.put(name, of(value.get(name), fields.get(name), inner));
              }
            });
    return found;
  }

  private static Object items(List<?> value, Object schema, Node inner) {
    List<Object> found = new ArrayList<>();
    value.forEach(each -> found.add(of(each, schema, inner)));
    return found;
  }

  private static Object entries(Map<?, ?> value, Object schema, Node inner) {
    Map<Object, Object> found = new LinkedHashMap<>();
    value.forEach((key, each) -> found.put(key, of(each, schema, inner)));
    return found;
  }

  private static Object leaf(Object value, Map<?, ?> schema, String kind) {
    if (!(schema.get("name") instanceof String name)) {
      return value;
    }
    if (value instanceof Document.Whole whole) {
      return whole(whole, name, kind);
    }
    if (name.equals(DECIMAL) && NUMBERS.contains(kind) && value instanceof String) {
      return number(bytes(value), scale(schema), kind);
    }
    if (name.equals(VARIABLE) && NUMBERS.contains(kind) && value instanceof Map<?, ?> map) {
      Object scale = map.get("scale");
      byte[] unscaled = bytes(map.get("value"));
      return number(unscaled, scale instanceof Document.Whole whole ? new BigInteger(whole.text()) : null, kind);
    }
    return value;
  }

  private static Object whole(Document.Whole value, String name, String kind) {
    if (DAYS.contains(name) && kind.equals("date")) {
      return date(new BigInteger(value.text()));
    }
    if (MILLIS_OF_DAY.contains(name) && kind.equals("long")) {
      return new Document.Whole(times(value, 1000).toString());
    }
    if (LOCAL.containsKey(name) && kind.equals("timestamp")) {
      return time(times(value, LOCAL.get(name)));
    }
    return name.equals(CONNECT + "Timestamp") && kind.equals("timestamptz") ? instant(value) : value;
  }

  /** Milliseconds since 1970 as a time with its zone. */
  static String instant(Document.Whole millis) {
    return time(times(millis, 1000)) + "Z";
  }

  private static BigInteger times(Document.Whole value, int factor) {
    return new BigInteger(value.text()).multiply(BigInteger.valueOf(factor));
  }

  private static String date(BigInteger days) {
    if (days.bitLength() >= Long.SIZE || days.longValue() < DateReader.FIRST || days.longValue() > DateReader.LAST) {
      throw Fault.OUT_OF_RANGE;
    }
    return LocalDate.ofEpochDay(days.longValue()).toString();
  }

  private static String time(BigInteger micros) {
    if (micros.compareTo(FIRST_MICROS) < 0 || micros.compareTo(LAST_MICROS) > 0) {
      throw Fault.OUT_OF_RANGE;
    }
    long all = micros.longValue();
    int nanos = (int) Math.floorMod(all, MILLION) * 1000;
    LocalDateTime at = LocalDateTime.ofEpochSecond(Math.floorDiv(all, MILLION), nanos, ZoneOffset.UTC);
    return at.getSecond() == 0 && nanos == 0 ? at + ":00" : at.toString(); // Java leaves out seconds that are 0
  }

  private static byte[] bytes(Object value) {
    if (!(value instanceof String text)) {
      throw Fault.TYPE_MISMATCH;
    }
    if (text.length() % 4 != 0) {
      throw Fault.UNDECODABLE; // Java would do without the padding
    }
    try {
      return Base64.getDecoder().decode(text);
    } catch (IllegalArgumentException noBase64) {
      throw Fault.UNDECODABLE;
    }
  }

  /** Of a decimal, by its schema; null where it says none. */
  private static BigInteger scale(Map<?, ?> schema) {
    Object found = schema.get("parameters") instanceof Map<?, ?> map ? map.get("scale") : null;
    if (found instanceof Document.Whole whole) {
      return new BigInteger(whole.text());
    }
    if (found instanceof Boolean flag) {
      return flag ? BigInteger.ONE : BigInteger.ZERO;
    }
    var read = INTEGER.matcher(found instanceof String text ? text : "");
    return read.matches() ? new BigInteger(read.group(1) + read.group(2).replace("_", "")) : null;
  }

  private static Object number(byte[] unscaled, BigInteger scale, String kind) {
    if (scale == null || unscaled.length == 0) {
      throw Fault.UNDECODABLE;
    }
    if (scale.abs().compareTo(MOST_SCALE) > 0 || unscaled.length > MOST_BYTES) {
      throw Fault.OUT_OF_RANGE;
    }
    BigInteger number = new BigInteger(unscaled);
    String sign = number.signum() < 0 ? "-" : "";
    String digits = number.abs().toString();
    int after = scale.intValue();
    if (kind.equals("decimal")) {
      return new Document.Written(sign + "0." + digits + "E" + (digits.length() - after)); // of any number of digits
    }
    if (after <= 0) {
      return sign + (number.signum() == 0 ? "0" : digits + "0".repeat(-after));
    }
    String padded = "0".repeat(Math.max(0, after + 1 - digits.length())) + digits;
    return sign + padded.substring(0, padded.length() - after) + "." + padded.substring(padded.length() - after);
  }
}
