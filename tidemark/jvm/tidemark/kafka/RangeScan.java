package tidemark.kafka;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.types.StructType;

/**
 * A scan of Spark's Kafka source, planned by that, and read by RangesReaders.
 *
 * <p>Spark has a task per range. No more than can run at once are wanted here: a task has its own files to write, and
 * code that was compiled while the first tasks ran would be given up when these meet the end of their rows.
 */
public final class RangeScan implements Scan, Batch {
  private final BatchScanExec planned;
  private final int tasks; // at most

  public RangeScan(BatchScanExec planned, int tasks) {
    this.planned = planned;
    this.tasks = tasks;
  }

  /** Whether each row's values are objects of their own: those of Spark's reader lie in bytes that it fills anew. */
  public boolean valuesLast() {
    return asJava(planned.inputPartitions()).stream().allMatch(RangeScan::isKnown);
  }

  @Override
  public StructType readSchema() {
    return planned.scan().readSchema();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InputPartition[] ranges = asJava(planned.inputPartitions()).toArray(new InputPartition[0]);
    return ranges.length > tasks && areApart(ranges) ? spread(ranges) : ranges;
  }

  /** The largest first, each to who has least. */
  private InputPartition[] spread(InputPartition[] ranges) {
    PriorityQueue<Ranges> least = new PriorityQueue<>(Comparator.comparingLong(Ranges::size));
    for (int i = 0; i < tasks; i++) {
      least.add(new Ranges(new ArrayList<>()));
    }
    Arrays.sort(ranges, Comparator.comparingLong(RangeScan::size).reversed());
    for (InputPartition range : ranges) {
      Ranges chosen = least.remove();
      chosen.all.add(range);
      least.add(chosen);
    }
    least.removeIf(each -> each.all.isEmpty()); // where ranges are
    return least.toArray(new InputPartition[0]);
  }

  private static long size(InputPartition range) {
    return ((KafkaBatchInputPartition) range).offsetRange().size();
  }

  /** Whether one consumer can read them all: it is at one place of a partition, and `minPartitions` cuts ranges. */
  private static boolean areApart(InputPartition[] ranges) {
    Set<TopicPartition> seen = new HashSet<>();
    return Arrays.stream(ranges)
        .allMatch(
            each ->
                isKnown(each) && seen.add(((KafkaBatchInputPartition) each).offsetRange().topicPartition()));
  }

  /** What may lose records, or does not know its range yet, is Spark's to read. */
  private static boolean isKnown(InputPartition partition) {
    return partition instanceof KafkaBatchInputPartition range
        && range.failOnDataLoss()
        && range.offsetRange().fromOffset() >= 0
        && range.offsetRange().untilOffset() >= 0;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new Factory(planned.batch().createReaderFactory());
  }

  private record Ranges(List<InputPartition> all) implements InputPartition {
    long size() {
      return all.stream().mapToLong(RangeScan::size).sum();
    }
  }

  private record Factory(PartitionReaderFactory spark) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      List<InputPartition> ranges = partition instanceof Ranges several ? several.all : List.of(partition);
      return ranges.stream().allMatch(RangeScan::isKnown)
          ? new RangesReader(ranges.stream().map(KafkaBatchInputPartition.class::cast).toList())
          : spark.createReader(partition);
    }
  }
}
