package tidemark.spark;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** `spark.sql.extensions=…,tidemark.spark.TidemarkExtensions`. */
public final class TidemarkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(
        new AbstractFunction1<>() {
          @Override
          public FasterAvro apply(org.apache.spark.sql.SparkSession session) {
            return new FasterAvro();
          }
        });
    return BoxedUnit.UNIT;
  }
}
