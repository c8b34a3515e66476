package tidemark.decode;

import org.apache.spark.unsafe.types.UTF8String;

/** Why a value makes no row: the cause with which its record is quarantined. The words for it are found afterwards. */
public final class Fault extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public static final Fault UNDECODABLE = new Fault("undecodable");
  public static final Fault OUT_OF_RANGE = new Fault("value_out_of_range");
  public static final Fault TYPE_MISMATCH = new Fault("type_mismatch");
  public static final Fault INVALID = new Fault("invalid_against_schema");
  public static final Fault WRONG_MESSAGE = new Fault("wrong_message_type");

  /** No fault: a message or bookkeeping, which makes no row. */
  public static final Fault SKIP = new Fault("skip");

  /** No fault: it makes no row, and empties the source's table. */
  public static final Fault TRUNCATE = new Fault("truncate");

  final transient UTF8String cause;

  private Fault(String cause) {
    super(cause, null, false, false); // thrown per damaged record: without a stack
    this.cause = UTF8String.fromString(cause);
  }
}
