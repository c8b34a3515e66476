package tidemark.json;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import tidemark.decode.Fault;

/** Debezium's records, in their envelope or flat, as rows with `_cdc`. */
final class RowShape extends Shape {
  private static final String CDC = "_cdc";
  private static final String META = "__";
  private static final String WHOLE = "value";
  private static final Set<String> OPS = Set.of("c", "r", "u", "d", "t");
  private static final Set<String> WITH_ROW = Set.of("c", "r", "u");
  private static final Set<String> TIMES = Set.of("ts_ms", "ts_us", "ts_ns");
  private static final Set<String> BOOKKEEPING =
      Set.of("Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "MessageValue");
  private static final int DIGITS = 20;

  private final boolean isFlat;
  private final boolean truncates;
  private final boolean isWhole;

  RowShape(Meaning.Node root, boolean isFlat, boolean truncates) {
    super(root);
    this.isFlat = isFlat;
    this.truncates = truncates;
    Meaning.Node whole = root.properties().get(WHOLE);
    isWhole = whole != null && whole.kind().equals("text");
  }

  @Override
  Map<String, Object> row(Object schema, Object payload) {
    if (payload == null && isFlat) {
      return Map.of(CDC, Map.of("op", "d"));
    }
    if (!(payload instanceof Map<?, ?>)) {
      throw Fault.INVALID;
    }
    @SuppressWarnings("unchecked")
    Map<String, Object> map = (Map<String, Object>) payload;
    return isFlat ? flat(schema, map) : enveloped(schema, map);
  }

  private Map<String, Object> enveloped(Object schema, Map<String, Object> payload) {
    Object op = payload.get("op");
    if (op == null && isBookkeeping(schema, payload)) {
      throw Fault.SKIP;
    }
    checkOfRow(op);
    String name = "d".equals(op) ? "before" : "after";
    Object row = payload.get(name);
    if (!isOp(op) || row == null && WITH_ROW.contains(op)) {
      throw Fault.INVALID;
    }
    Object source = payload.get("source");
    Map<?, ?> bag = source instanceof Map<?, ?> map ? map : Map.of();
    Object transaction = payload.get("transaction");
    Map<String, Object> cdc = new LinkedHashMap<>();
    cdc.put("op", op);
    cdc.put("source", source == null ? null : Document.text(source));
    cdc.put("ts", instant(payload.get("ts_ms")));
    cdc.put("pos", position(bag));
    cdc.put("snapshot", text(bag.get("snapshot")));
    cdc.put("transaction", transaction == null ? null : Document.text(transaction));
    return withChange(row, Meaning.fields(schema).get(name), cdc);
  }

  private Map<String, Object> flat(Object schema, Map<String, Object> payload) {
    if (isBookkeeping(schema, payload)) {
      throw Fault.SKIP;
    }
    Map<String, Object> meta = new LinkedHashMap<>();
    Map<String, Object> row = new LinkedHashMap<>();
    payload.forEach(
        (key, value) -> {
          if (key.startsWith(META)) {
            meta.put(key.substring(META.length()), value);
          } else {
            row.put(key, value);
          }
        });
    Map<String, Object> bag = new LinkedHashMap<>(meta);
    bag.putAll(beginning(meta, "source_"));
    Object said = meta.get("op");
    Object op = "true".equals(text(meta.get("deleted"))) ? "d" : isNothing(said) ? "u" : said;
    checkOfRow(op);
    if (!isOp(op)) {
      throw Fault.INVALID;
    }
    Map<String, Object> transaction = beginning(bag, "transaction_");
    Object at = meta.get("ts_ms");
    Map<String, Object> cdc = new LinkedHashMap<>();
    cdc.put("op", op);
    cdc.put("source", meta.isEmpty() ? null : Document.text(meta));
    cdc.put("ts", instant(at == null ? meta.get("source_ts_ms") : at));
    cdc.put("pos", position(bag));
    cdc.put("snapshot", text(bag.get("snapshot")));
    cdc.put("transaction", transaction.isEmpty() ? null : Document.text(transaction));
    return withChange(row, schema, cdc);
  }

  private static Map<String, Object> beginning(Map<String, Object> bag, String prefix) {
    Map<String, Object> found = new LinkedHashMap<>();
    bag.forEach(
        (key, value) -> {
          if (key.startsWith(prefix)) {
            found.put(key.substring(prefix.length()), value);
          }
        });
    return found;
  }

  /** What Python takes for false. */
  private static boolean isNothing(Object value) {
    return value == null
        || value.equals("")
        || value.equals(false)
        || value instanceof Map<?, ?> map && map.isEmpty()
        || value instanceof List<?> list && list.isEmpty()
        || value instanceof Document.Whole whole && whole.text().equals("0")
        || value instanceof Document.Written written && isZero(written.text());
  }

  private static boolean isZero(String number) {
    int end = number.indexOf('E');
    return (end < 0 ? number : number.substring(0, end)).chars().noneMatch(sign -> sign >= '1' && sign <= '9');
  }

  private void checkOfRow(Object op) {
    if ("m".equals(op)) {
      throw Fault.SKIP;
    }
    if ("t".equals(op) && !truncates) {
      throw Fault.TRUNCATE;
    }
  }

  private static boolean isOp(Object op) {
    return op instanceof String && OPS.contains(op);
  }

  /** A record of a heartbeat, transaction or schema-change topic: by its schema's name, else by its fields. */
  private boolean isBookkeeping(Object schema, Map<String, Object> payload) {
    if (schema instanceof Map<?, ?> said) {
      if (!(said.get("name") instanceof String name)) {
        return false;
      }
      if (!name.isEmpty()) {
        return name.startsWith("io.debezium.") && BOOKKEEPING.contains(name.substring(name.lastIndexOf('.') + 1));
      }
    }
    if (isFlat && properties.keySet().stream().anyMatch(payload::containsKey)) {
      return false;
    }
    Object status = payload.get("status");
    boolean isTransaction =
        ("BEGIN".equals(status) || "END".equals(status))
            && payload.containsKey("id")
            && payload.containsKey("event_count");
    boolean isChange =
        payload.containsKey("source") && (payload.containsKey("ddl") || payload.containsKey("tableChanges"));
    return payload.containsKey("ts_ms") && TIMES.containsAll(payload.keySet()) || isTransaction || isChange;
  }

  private Map<String, Object> withChange(Object row, Object schema, Map<String, Object> cdc) {
    Map<String, Object> found = new LinkedHashMap<>();
    if (row != null && isWhole) {
      found.put(WHOLE, row);
    } else if (row != null) {
      if (!(row instanceof Map<?, ?> map) || map.containsKey(CDC)) {
        throw Fault.TYPE_MISMATCH;
      }
      found = columns(map, schema);
    }
    found.put(CDC, cdc);
    return found;
  }

  private static String instant(Object millis) {
    if (millis == null) {
      return null;
    }
    if (!(millis instanceof Document.Whole whole)) {
      throw Fault.TYPE_MISMATCH;
    }
    return Meaning.instant(whole);
  }

  /**
   * The place in the database's log: numbers padded to twenty digits, parts with colons between them. A file without a
   * name is none: so MySQL's snapshots say that they have no place.
   */
  private static String position(Map<?, ?> bag) {
    List<String> parts;
    if (bag.containsKey("lsn")) {
      return padded(bag.get("lsn"));
    } else if (bag.containsKey("change_lsn")) {
      String serial = padded(bag.get("event_serial_no"));
      parts = Arrays.asList(text(bag.get("commit_lsn")), text(bag.get("change_lsn")), serial);
    } else if (bag.containsKey("pos") && !Objects.requireNonNullElse(text(bag.get("file")), "").isEmpty()) {
      parts = Arrays.asList(text(bag.get("file")), padded(bag.get("pos")), padded(bag.get("row")));
    } else {
      return padded(bag.get("scn"));
    }
    String joined = parts.stream().filter(Objects::nonNull).collect(Collectors.joining(":"));
    return joined.isEmpty() ? null : joined;
  }

  private static String padded(Object number) {
    String text = text(number);
    if (text == null) {
      return null;
    }
    int length = text.codePointCount(0, text.length());
    return "0".repeat(Math.max(0, DIGITS - length)) + text;
  }

  private static String text(Object value) {
    return value == null || value instanceof String ? (String) value : Document.text(value);
  }
}
