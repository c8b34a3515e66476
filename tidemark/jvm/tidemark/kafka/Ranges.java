package tidemark.kafka;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.Partition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/**
 * The ranges of offsets that a task reads, of those that Spark's Kafka source has planned.
 *
 * <p>Spark has a task per range. No more than can run at once are wanted here: a task has its own files to write.
 */
public record Ranges(int index, List<KafkaBatchInputPartition> all) implements Partition {
  /** By so many tasks at most; null where records may be lost or a range is not known yet: that is Spark's to read. */
  public static List<Ranges> of(List<InputPartition> planned, int tasks) {
    if (!planned.stream().allMatch(Ranges::isKnown)) {
      return null;
    }
    List<KafkaBatchInputPartition> all = planned.stream().map(KafkaBatchInputPartition.class::cast).toList();
    List<List<KafkaBatchInputPartition>> parts =
        all.size() > tasks && areApart(all) ? spread(all, tasks) : all.stream().map(List::of).toList();
    List<Ranges> found = new ArrayList<>();
    parts.forEach(part -> found.add(new Ranges(found.size(), part)));
    return found;
  }

  /** The largest first, each to who has least. */
  private static List<List<KafkaBatchInputPartition>> spread(List<KafkaBatchInputPartition> all, int tasks) {
    PriorityQueue<List<KafkaBatchInputPartition>> least =
        new PriorityQueue<>(Comparator.comparingLong(part -> part.stream().mapToLong(Ranges::size).sum()));
    for (int i = 0; i < tasks; i++) {
      least.add(new ArrayList<>());
    }
    for (var range : all.stream().sorted(Comparator.comparingLong(Ranges::size).reversed()).toList()) {
      List<KafkaBatchInputPartition> chosen = least.remove();
      chosen.add(range);
      least.add(chosen);
    }
    return least.stream().filter(part -> !part.isEmpty()).toList(); // some are where ranges are
  }

  private static boolean isKnown(InputPartition partition) {
    return partition instanceof KafkaBatchInputPartition range
        && range.failOnDataLoss()
        && range.offsetRange().fromOffset() >= 0
        && range.offsetRange().untilOffset() >= 0;
  }

  /** Whether one consumer can read them all: it is at one place of a partition, and `minPartitions` cuts ranges. */
  private static boolean areApart(List<KafkaBatchInputPartition> ranges) {
    Set<TopicPartition> seen = new HashSet<>();
    return ranges.stream().allMatch(range -> seen.add(range.offsetRange().topicPartition()));
  }

  private static long size(KafkaBatchInputPartition range) {
    return range.offsetRange().size();
  }
}
