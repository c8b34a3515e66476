package tidemark.decode;

import org.apache.spark.sql.catalyst.InternalRow;

/** Reads the values of one writer. Made for one task: it may keep what it needs from value to value. */
public interface Format {
  /**
   * The row of the bytes behind `from`.
   *
   * @throws Fault they make none; every other exception is taken for `undecodable`
   */
  InternalRow row(byte[] value, int from);
}
