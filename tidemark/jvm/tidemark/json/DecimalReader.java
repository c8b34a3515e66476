package tidemark.json;

import java.math.BigDecimal;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import tidemark.decode.Fault;

/** Reads numbers that a decimal holds to the last digit. */
final class DecimalReader extends Reader {
  private static final int SMALL = 18;
  private static final long[] POWERS = new long[SMALL + 1];

  static {
    POWERS[0] = 1;
    for (int i = 1; i <= SMALL; i++) {
      POWERS[i] = 10 * POWERS[i - 1];
    }
  }

  private final NumberReader numbers = NumberReader.real(null); // takes the token
  private final int precision; // that the documents may have; the column's may be greater
  private final int scale;
  private final DecimalType type;

  DecimalReader(int precision, int scale, DecimalType type) {
    this.precision = precision;
    this.scale = scale;
    this.type = type;
  }

  void limit(Checks.Bounds bounds) {
    numbers.bounds = bounds;
  }

  @Override
  Object object(Input in) {
    if (!numbers.isNumber(in)) {
      return null;
    }
    Decimal found = small();
    if (found == null) {
      found = exact();
    }
    if (found == null && numbers.numeral.hasFraction()) {
      in.mistype(Fault.OUT_OF_RANGE); // decimals of a schema are integers
    } else if (found == null) {
      in.fail(Fault.OUT_OF_RANGE);
    }
    return found;
  }

  /** Null for what needs a second look. */
  private Decimal small() {
    Numeral numeral = numbers.numeral;
    long shift = scale + numeral.exponent;
    if (!numeral.isSmall || shift < 0 || shift > SMALL || scale != type.scale() || type.precision() > SMALL) {
      return null;
    }
    long most = POWERS[precision] - 1;
    if (numeral.significand > most / POWERS[(int) shift]) {
      return null;
    }
    long unscaled = numeral.significand * POWERS[(int) shift];
    return Decimal.createUnsafe(numeral.isNegative ? -unscaled : unscaled, type.precision(), scale);
  }

  private Decimal exact() {
    BigDecimal value = numbers.numeral.value();
    if (value == null) {
      return null;
    }
    value = value.stripTrailingZeros();
    boolean fits = value.scale() <= scale && value.precision() - value.scale() <= precision - scale;
    if (!fits && value.signum() != 0) {
      return null;
    }
    return Decimal.apply(value.setScale(type.scale()), type.precision(), type.scale());
  }
}
