package tidemark.decode;

import java.io.Serializable;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;

/** Texts of a row, by their ordinals. */
public final class Texts implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int[] ordinals;

  public Texts(int... ordinals) {
    this.ordinals = ordinals;
  }

  public Texts and(Texts others) {
    return new Texts(IntStream.concat(Arrays.stream(ordinals), Arrays.stream(others.ordinals)).toArray());
  }

  /** Whether all are valid UTF-8, as AND has it: false where one is not, else null where one is NULL. */
  public Boolean areValid(InternalRow row) {
    boolean isKnown = true;
    for (int ordinal : ordinals) {
      if (row.isNullAt(ordinal)) {
        isKnown = false;
      } else if (!Utf8.isValid(row, ordinal)) {
        return false;
      }
    }
    return isKnown ? Boolean.TRUE : null;
  }

  /** In plans: what is asked of which. */
  @Override
  public String toString() {
    return Arrays.toString(ordinals);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Texts texts && Arrays.equals(ordinals, texts.ordinals);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(ordinals);
  }
}
