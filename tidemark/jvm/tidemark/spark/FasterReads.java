package tidemark.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import scala.runtime.AbstractFunction1;

/** A rule of physical plans: ranges of Kafka's offsets by readers of our own, as many as there are cores, or by one. */
final class FasterReads extends Rule<SparkPlan> {
  private static final String KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan";
  private static final String GROWS = "spark.dynamicAllocation.enabled"; // with the tasks that wait

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return replaced(plan, false);
  }

  private static SparkPlan replaced(SparkPlan plan, boolean together) {
    if (plan instanceof BatchScanExec read && read.scan().getClass().getName().equals(KAFKA)) {
      SparkPlan ours = RangesExec.of(read, together ? 1 : cores(read.session().sparkContext()));
      return ours == null ? plan : ours;
    }
    if (plan instanceof CoalesceExec coalesced && coalesced.numPartitions() == 1) {
      SparkPlan child = replaced(coalesced.child(), true);
      return isOne(child) ? child : coalesced.withNewChildInternal(child);
    }
    boolean below = together && plan instanceof ProjectExec;
    return (SparkPlan)
        plan.mapChildren(
            new AbstractFunction1<>() {
              @Override
              public SparkPlan apply(SparkPlan child) {
                return replaced(child, below);
              }
            });
  }

  /** Whether a plan is one task by itself: what is between stages of generated code copies every row. */
  private static boolean isOne(SparkPlan plan) {
    return plan instanceof ProjectExec project
        ? isOne(project.child())
        : plan instanceof RangesExec read && read.isOneTask();
  }

  private static int cores(SparkContext context) {
    return context.conf().getBoolean(GROWS, false) ? Integer.MAX_VALUE : context.defaultParallelism();
  }
}
