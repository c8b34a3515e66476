package tidemark.spark;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * An optimizer rule: decoders and `is_valid_utf8` by functions that give the same answers for less, and `rlike` by one
 * that throws where Spark's would end the server.
 */
public final class FasterDecoders extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformAllExpressions(new Replaced());
  }

  private static final class Replaced extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(Expression expression) {
      return Replacements.of(expression) != null;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
      Expression found = Replacements.of(expression);
      return found == null ? otherwise.apply(expression) : (B) found;
    }
  }
}
