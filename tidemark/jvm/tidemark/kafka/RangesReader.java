package tidemark.kafka;

import static scala.jdk.javaapi.CollectionConverters.asScala;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.kafka010.KafkaTokenUtil;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.AbstractIterator;
import tidemark.decode.Record;

/**
 * The records of ranges of offsets as rows of Spark's Kafka source, each the same object with other values.
 *
 * <p>Times are Kafka's own, where Spark's source takes those before 1582-10-15 for the Julian calendar's.
 *
 * <p>One consumer reads them all, made as Spark's source makes its own, and closed with its task. It only moves
 * forward, so that it fetches ahead while rows are decoded. An offset that is gone is its OffsetOutOfRangeException:
 * Spark tells it `auto.offset.reset=none`. No partition may have two ranges.
 *
 * <p>A reader that `pauses` says at some polls that there are no more rows, though there are: who asks has to ask
 * `hasPaused`, and then once more. So Java sees the end of rows before it compiles the code around them. What it compiles
 * without having seen it is given up at the end of a server's first batch, and compiled anew during the next.
 */
public final class RangesReader extends AbstractIterator<InternalRow> {
  private static final int KEY = 0;
  private static final int VALUE = 1;
  private static final int TOPIC = 2;
  private static final int PARTITION = 3;
  private static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;
  private static final int HEADERS = 7;
  private static final int AT_ONCE = 500; // records that are still in a core's cache when they become rows
  private static final ThreadLocal<Boolean> PAUSED = ThreadLocal.withInitial(() -> false); // and not ended

  private final Consumer<byte[], byte[]> consumer;
  private final Duration patience; // without anything new
  private final boolean withHeaders;
  private final Record row;
  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final Map<TopicPartition, Long> unread = new HashMap<>(); // where the consumer is, up to its end
  private final Map<String, UTF8String> topics = new HashMap<>(); // the writer knows the same object again
  private final TaskContext task;
  private final boolean pauses;
  private int polls;
  private boolean paused; // since the last poll
  private ConsumerRecords<byte[], byte[]> polled = ConsumerRecords.empty();
  private TopicPartition[] partitions = new TopicPartition[0]; // of `polled`
  private int turned; // to so many of `partitions`
  private ConsumerRecord<byte[], byte[]>[] records = none(); // of one of them
  private int taken; // of `records`
  private int within; // so many of `records` lie in the range

  RangesReader(List<KafkaBatchInputPartition> ranges, TaskContext task, boolean pauses) {
    this.task = task;
    this.pauses = pauses;
    KafkaBatchInputPartition any = ranges.get(0);
    patience = Duration.ofMillis(any.pollTimeoutMs());
    withHeaders = any.includeHeaders();
    row = new Record(withHeaders ? HEADERS + 1 : HEADERS);
    for (KafkaBatchInputPartition range : ranges) {
      TopicPartition partition = range.offsetRange().topicPartition();
      ends.put(partition, range.offsetRange().untilOffset());
      unread.put(partition, range.offsetRange().fromOffset());
    }
    consumer = consumer(any.executorKafkaParams());
    consumer.assign(ends.keySet());
    unread.forEach(consumer::seek);
  }

  private static Consumer<byte[], byte[]> consumer(Map<String, Object> planned) {
    Map<String, Object> parameters = new HashMap<>(planned);
    parameters.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, AT_ONCE);
    String servers = (String) parameters.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
    var cluster = KafkaTokenUtil.findMatchingTokenClusterConfig(SparkEnv.get().conf(), servers);
    var given = scala.collection.immutable.Map.from(asScala(parameters));
    return new KafkaConsumer<>(
        new KafkaConfigUpdater("executor", given).setAuthenticationConfigIfNeeded(cluster).build());
  }

  /** Whether a reader of this thread that said that there are no more rows has only paused, once. */
  public static boolean hasPaused() {
    boolean found = PAUSED.get();
    PAUSED.set(false);
    return found;
  }

  @Override
  public boolean hasNext() {
    return taken < within || isFilled();
  }

  @Override
  public InternalRow next() {
    if (!hasNext()) {
      throw new NoSuchElementException(); // not a record behind the range
    }
    fill(records[taken++]);
    return row;
  }

  /** Turns to the next records. */
  private boolean isFilled() {
    while (taken == within) {
      if (turned < partitions.length) {
        turnTo(partitions[turned++]);
      } else if (unread.isEmpty()) {
        return false;
      } else if (pauses && !paused && Integer.bitCount(polls) == 1) {
        paused = true;
        PAUSED.set(true);
        return false;
      } else {
        poll();
      }
    }
    return true;
  }

  @SuppressWarnings("unchecked")
  private static ConsumerRecord<byte[], byte[]>[] none() {
    return new ConsumerRecord[0];
  }

  private void turnTo(TopicPartition partition) {
    records = polled.records(partition).toArray(none());
    taken = 0;
    within = records.length;
    for (long end = ends.get(partition); within > 0 && records[within - 1].offset() >= end; ) {
      within--;
    }
    task.taskMetrics().inputMetrics().incRecordsRead(within);
    row.update(TOPIC, topics.computeIfAbsent(partition.topic(), UTF8String::fromString));
    row.number(PARTITION, partition.partition());
  }

  /** Markers and aborted records move a position without a record. */
  private void poll() {
    task.killTaskIfInterrupted();
    polled = consumer.poll(patience);
    partitions = polled.partitions().toArray(new TopicPartition[0]);
    turned = 0;
    polls++;
    paused = false;
    Map<TopicPartition, Long> before = Map.copyOf(unread);
    unread.replaceAll((partition, position) -> consumer.position(partition));
    if (unread.equals(before)) {
      throw new TimeoutException(
          "Cannot fetch record for offset " + before + " in " + patience.toMillis() + " milliseconds");
    }
    unread.entrySet().removeIf(each -> each.getValue() >= ends.get(each.getKey()));
    if (unread.size() < before.size()) {
      consumer.pause(before.keySet().stream().filter(each -> !unread.containsKey(each)).toList());
    }
  }

  private void fill(ConsumerRecord<byte[], byte[]> record) {
    row.update(KEY, record.key());
    row.update(VALUE, record.value());
    row.number(OFFSET, record.offset());
    row.number(TIMESTAMP, Math.multiplyExact(record.timestamp(), 1000L));
    row.number(TIMESTAMP_TYPE, record.timestampType().id);
    if (withHeaders) {
      row.update(HEADERS, headers(record.headers().toArray()));
    }
  }

  /** Null where there are none. */
  private static GenericArrayData headers(Header[] found) {
    if (found.length == 0) {
      return null;
    }
    Object[] rows = new Object[found.length];
    for (int i = 0; i < rows.length; i++) {
      rows[i] =
          new GenericInternalRow(new Object[] {UTF8String.fromString(found[i].key()), found[i].value()});
    }
    return new GenericArrayData(rows);
  }

  void close() {
    consumer.close(Duration.ZERO);
  }
}
