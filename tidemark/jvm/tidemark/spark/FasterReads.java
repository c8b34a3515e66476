package tidemark.spark;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import scala.runtime.AbstractFunction1;
import tidemark.kafka.RangeScan;

/** A rule of physical plans: ranges of Kafka's offsets by a reader of our own, all by one where one task reads them. */
final class FasterReads extends Rule<SparkPlan> {
  private static final String KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return replaced(plan, false);
  }

  private static SparkPlan replaced(SparkPlan plan, boolean together) {
    if (plan instanceof BatchScanExec read && read.scan().getClass().getName().equals(KAFKA)) {
      return read.copy(
          read.output(),
          new RangeScan(read, together),
          read.runtimeFilters(),
          read.ordering(),
          read.table(),
          read.spjParams());
    }
    boolean below =
        plan instanceof CoalesceExec coalesced
            ? coalesced.numPartitions() == 1
            : together && plan instanceof ProjectExec;
    return (SparkPlan)
        plan.mapChildren(
            new AbstractFunction1<>() {
              @Override
              public SparkPlan apply(SparkPlan child) {
                return replaced(child, below);
              }
            });
  }
}
