package tidemark.json;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import tidemark.decode.Fault;

/** Takes a document to the one that the tree describes, see `tidemark/engine/decode/shipped/debezium_json.py`. */
abstract class Shape {
  private static final Set<String> AROUND = Set.of("schema", "payload");

  final Map<String, Meaning.Node> properties;
  private final Document documents = new Document();

  Shape(Meaning.Node root) {
    properties = root.properties();
  }

  static Shape of(JsonNode said) {
    Meaning.Node root = Meaning.Node.of(said);
    String shape = said.get("shape").asText();
    return shape.endsWith("key")
        ? new KeyShape(root, shape.equals("key"))
        : new RowShape(root, shape.equals("debezium_flat"), said.get("truncates").asBoolean());
  }

  /** The document for the tree, as text. */
  final byte[] shaped(byte[] value, int from) {
    Object document = documents.read(value, from);
    Object schema = null;
    Object payload = document;
    if (document instanceof Map<?, ?> map && map.keySet().equals(AROUND)) {
      Object said = map.get("schema");
      if (said == null || said instanceof Map<?, ?> types && types.containsKey("type")) {
        schema = said;
        payload = map.get("payload");
      }
    }
    Text out = new Text();
    Document.write(row(schema, payload), out);
    return out.all().getBytes();
  }

  abstract Map<String, Object> row(Object schema, Object payload);

  /** A row's values as its schema means them, where the tree knows them. */
  final Map<String, Object> columns(Map<?, ?> row, Object schema) {
    Map<Object, Object> fields = Meaning.fields(schema);
    Map<String, Object> found = new LinkedHashMap<>();
    row.forEach(
        (key, value) -> {
          String name = (String) key;
          Meaning.Node known = properties.get(name);
          found.put(name, known == null ? value : Meaning.of(value, fields.get(name), known));
        });
    return found;
  }

  /** The document of a Kafka key; a `certain` one has all columns. */
  private static final class KeyShape extends Shape {
    private final boolean isCertain;

    KeyShape(Meaning.Node root, boolean isCertain) {
      super(root);
      this.isCertain = isCertain;
    }

    @Override
    Map<String, Object> row(Object schema, Object payload) {
      if (!(payload instanceof Map<?, ?> map)) {
        return isCertain ? only(payload, schema) : Map.of();
      }
      if (isCertain && properties.size() == 1 && map.size() == 1) {
        String name = (String) map.keySet().iterator().next();
        return only(map.get(name), Meaning.fields(schema).get(name));
      }
      if (isCertain && !map.keySet().containsAll(properties.keySet())) {
        throw Fault.TYPE_MISMATCH;
      }
      Map<String, Object> named = new LinkedHashMap<>();
      for (String name : properties.keySet()) {
        if (map.containsKey(name)) {
          named.put(name, map.get(name));
        }
      }
      return columns(named, schema);
    }

    /** The one column that there is. */
    private Map<String, Object> only(Object value, Object schema) {
      if (properties.size() != 1) {
        throw Fault.TYPE_MISMATCH;
      }
      Map<String, Object> found = new LinkedHashMap<>();
      properties.forEach((name, node) -> found.put(name, Meaning.of(value, schema, node)));
      return found;
    }
  }
}
