package tidemark.avro;

/** These bytes are no value of the schema. */
final class Malformed extends RuntimeException {
  private static final long serialVersionUID = 1L;

  static final Malformed INSTANCE = new Malformed();

  private Malformed() {
    super("malformed Avro", null, false, false); // thrown per damaged record: without a stack
  }
}
