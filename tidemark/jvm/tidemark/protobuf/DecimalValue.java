package tidemark.protobuf;

import java.math.BigDecimal;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/** Numbers of 64 bits without sign. */
final class DecimalValue extends NumericValue {
  private final int precision;

  DecimalValue(Kind kind, DecimalType type) {
    super(kind);
    precision = type.precision();
  }

  @Override
  Object object(long number) {
    return number >= 0
        ? Decimal.apply(number, precision, 0)
        : Decimal.apply(new BigDecimal(Long.toUnsignedString(number)), precision, 0);
  }
}
