import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Read a topic to its end and do nothing with it: TOPIC RECORDS KEY=VALUE… */
public class Consume {
  public static void main(String[] arguments) {
    Properties properties = new Properties();
    for (int place = 2; place < arguments.length; place++) {
      String[] pair = arguments[place].split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    long left = Long.parseLong(arguments[1]);
    long bytes = 0;
    ByteArrayDeserializer plain = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, plain, plain)) {
      List<TopicPartition> all = new ArrayList<>();
      for (PartitionInfo each : consumer.partitionsFor(arguments[0])) {
        all.add(new TopicPartition(each.topic(), each.partition()));
      }
      consumer.assign(all);
      consumer.seekToBeginning(all);
      while (left > 0) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
          bytes += record.value().length;
          left--;
        }
      }
    }
    System.out.println(bytes);
  }
}
