package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;
import scala.runtime.AbstractFunction1;
import tidemark.iceberg.PartitionedAppend;

/**
 * A rule of physical plans: rows are appended as they are where only their last columns, or whole rows, are left out.
 *
 * <p>So a batch's rows, of which those that were written are filtered by their fate, are not copied once more for that,
 * nor for being counted, and Iceberg's writer is asked for the partition of those alone that may be of another.
 */
final class UncopiedWrites extends Rule<SparkPlan> {
  private static final String ICEBERG = "org.apache.iceberg."; // its writers ask rows by position
  private static final AbstractFunction1<SparkPlan, SparkPlan> PAUSING =
      new AbstractFunction1<>() {
        @Override
        public SparkPlan apply(SparkPlan plan) {
          return pausing(plan);
        }
      };

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (plan instanceof AppendDataExec append
        && append.write().getClass().getName().startsWith(ICEBERG)
        && append.query() instanceof ProjectExec project
        && project.child() instanceof FilterExec filter
        && isPrefix(asJava(project.projectList()), asJava(filter.output()))) {
      List<String> columns = asJava(project.output()).stream().map(Attribute::name).toList();
      return append.copy(
          new PassingExec(filter.condition(), project.output(), asRecords(filter.child())),
          append.refreshCache(),
          new PartitionedAppend(append.write(), columns));
    }
    return plan;
  }

  /** What is counted and handed on has no need of bytes. */
  private static SparkPlan asRecords(SparkPlan plan) {
    return plan instanceof CollectMetricsExec counted && counted.child() instanceof ProjectExec project
        ? counted.withNewChildInternal(DecodedRows.records((ProjectExec) pausing(project)))
        : plan;
  }

  /** PassingExec asks its rows once more where they have only paused. */
  private static SparkPlan pausing(SparkPlan plan) {
    if (plan instanceof RangesExec read) {
      return read.pausing();
    }
    boolean passes = plan instanceof ProjectExec || plan instanceof FilterExec;
    return passes ? (SparkPlan) plan.mapChildren(PAUSING) : plan;
  }

  private static boolean isPrefix(List<NamedExpression> listed, List<Attribute> columns) {
    if (listed.size() > columns.size()) {
      return false;
    }
    for (int i = 0; i < listed.size(); i++) {
      Expression each = (Expression) listed.get(i);
      Expression named = each instanceof Alias alias ? alias.child() : each;
      if (!(named instanceof Attribute column && column.exprId().equals(columns.get(i).exprId()))) {
        return false;
      }
    }
    return true;
  }
}
