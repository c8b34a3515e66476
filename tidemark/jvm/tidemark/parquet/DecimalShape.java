package tidemark.parquet;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.Decimal;

/** Digits of a decimal column; a value that has others is refused, as Iceberg's own writer does. */
record DecimalShape(int precision, int scale) {
  Decimal of(SpecializedGetters from, int ordinal) {
    Decimal value = from.getDecimal(ordinal, precision, scale);
    if (value.scale() != scale || value.precision() > precision) {
      throw new IllegalArgumentException(
          String.format("Cannot write value as decimal(%d,%d): %s", precision, scale, value));
    }
    return value;
  }
}
