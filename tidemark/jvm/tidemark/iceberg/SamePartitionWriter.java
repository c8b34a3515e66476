package tidemark.iceberg;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.io.FanoutDataWriter;
import org.apache.iceberg.io.FileWriter;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives a row to the file of the row before where both are of one hour or day, without a word to Iceberg's writer: that
 * makes a partition's key of each row, and looks its file up by it.
 *
 * <p>Any other row goes Iceberg's way, and shows which file is next. Records come about in the order of their times.
 */
final class SamePartitionWriter implements DataWriter<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(SamePartitionWriter.class);
  private static final Map<String, Long> MICROS = Map.of("hour", 3_600_000_000L, "day", 86_400_000_000L);

  private final DataWriter<InternalRow> own;
  private final Map<Integer, Map<StructLike, FileWriter<InternalRow, ?>>> files; // of `own`, by spec and partition
  private final int spec;
  private final StructLike key; // of `own`: the partition of the row that it wrote last
  private final int column;
  private final long width;
  private long from = Long.MAX_VALUE; // the times of the file's partition
  private long to = Long.MIN_VALUE;
  private FileWriter<InternalRow, ?> file;

  private SamePartitionWriter(
      DataWriter<InternalRow> own,
      Map<Integer, Map<StructLike, FileWriter<InternalRow, ?>>> files,
      int spec,
      StructLike key,
      int column,
      long width) {
    this.own = own;
    this.files = files;
    this.spec = spec;
    this.key = key;
    this.column = column;
    this.width = width;
  }

  /** `own` alone where it keeps no files open, rows are not parted by the hour or day of a time, or Iceberg is another. */
  static DataWriter<InternalRow> around(DataWriter<InternalRow> own, List<String> columns) {
    try {
      if (!(hidden(own, own.getClass(), "delegate") instanceof FanoutDataWriter<?> fanout)) {
        return own;
      }
      PartitionSpec spec = (PartitionSpec) hidden(own, own.getClass(), "spec");
      PartitionField field = spec.fields().get(0);
      Long width = MICROS.get(field.transform().toString());
      boolean isTime = spec.schema().findType(field.sourceId()) instanceof Types.TimestampType;
      int column = columns.indexOf(spec.schema().findColumnName(field.sourceId()));
      if (spec.fields().size() > 1 || width == null || !isTime || column < 0) {
        return own;
      }
      @SuppressWarnings("unchecked")
      var files =
          (Map<Integer, Map<StructLike, FileWriter<InternalRow, ?>>>)
              hidden(fanout, FanoutDataWriter.class.getSuperclass(), "writers");
      StructLike key = (StructLike) hidden(own, own.getClass(), "partitionKey");
      return new SamePartitionWriter(own, files, spec.specId(), key, column, width);
    } catch (ReflectiveOperationException | ClassCastException another) {
      LOG.warn("Iceberg's writer is not the one that is known here, and asked about every row: {}", another.toString());
      return own;
    }
  }

  private static Object hidden(Object of, Class<?> declaring, String name) throws ReflectiveOperationException {
    Field field = declaring.getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (row.isNullAt(column)) {
      own.write(row);
      return;
    }
    long time = row.getLong(column);
    if (from <= time && time <= to) {
      file.write(row);
      return;
    }
    own.write(row);
    long start = Math.floorDiv(time, width) * width;
    if (start > time || start + width - 1 < time) { // at the ends of time, where a day begins or ends beyond them
      from = Long.MAX_VALUE;
      return;
    }
    from = start;
    to = start + width - 1;
    file = files.get(spec).get(key);
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    return own.commit();
  }

  @Override
  public void abort() throws IOException {
    own.abort();
  }

  @Override
  public void close() throws IOException {
    own.close();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return own.currentMetricsValues();
  }
}
