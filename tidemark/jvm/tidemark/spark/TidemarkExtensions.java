package tidemark.spark;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** `spark.sql.extensions=…,tidemark.spark.TidemarkExtensions`. */
public final class TidemarkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(
        new AbstractFunction1<>() {
          @Override
          public FasterDecoders apply(SparkSession session) {
            return new FasterDecoders();
          }
        });
    physical(extensions, new FasterReads());
    physical(extensions, new UncopiedWrites());
    return BoxedUnit.UNIT;
  }

  private static void physical(SparkSessionExtensions extensions, Rule<SparkPlan> rule) {
    extensions.injectColumnar(
        new AbstractFunction1<>() {
          @Override
          public ColumnarRule apply(SparkSession session) {
            return new ColumnarRule() {
              @Override
              public Rule<SparkPlan> preColumnarTransitions() {
                return rule;
              }
            };
          }
        });
  }
}
