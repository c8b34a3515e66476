package tidemark.iceberg;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteSummary;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Iceberg's append of a batch, with a `SamePartitionWriter` around the writer of each task that can have one. */
public final class PartitionedAppend implements Write {
  private final Write own;
  private final List<String> columns;

  /** `columns` of the rows that will be written, in their order. */
  public PartitionedAppend(Write own, List<String> columns) {
    this.own = own;
    this.columns = List.copyOf(columns);
  }

  @Override
  public BatchWrite toBatch() {
    return new Batch(own.toBatch(), columns);
  }

  @Override
  public String description() {
    return own.description();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return own.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return own.reportDriverMetrics();
  }

  /** In plans. */
  @Override
  public String toString() {
    return own + " by partition";
  }

  private record Batch(BatchWrite own, List<String> columns) implements BatchWrite {
    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      return new Writers(own.createBatchWriterFactory(info), columns);
    }

    @Override
    public boolean useCommitCoordinator() {
      return own.useCommitCoordinator();
    }

    @Override
    public void onDataWriterCommit(WriterCommitMessage message) {
      own.onDataWriterCommit(message);
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      own.commit(messages);
    }

    @Override
    public void commit(WriterCommitMessage[] messages, WriteSummary summary) {
      own.commit(messages, summary);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      own.abort(messages);
    }

    @Override
    public String toString() {
      return own.toString();
    }
  }

  private record Writers(DataWriterFactory own, List<String> columns) implements DataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task) {
      return SamePartitionWriter.around(own.createWriter(partition, task), columns);
    }
  }
}
