package tidemark.parquet;

import static org.apache.iceberg.shaded.org.apache.parquet.hadoop.codec.ZstandardCodec.DEFAULT_PARQUET_COMPRESS_ZSTD_LEVEL;
import static org.apache.iceberg.shaded.org.apache.parquet.hadoop.codec.ZstandardCodec.PARQUET_COMPRESS_ZSTD_LEVEL;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.FieldMetrics;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.Schema;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.parquet.ParquetCodecFactory;
import org.apache.iceberg.parquet.ParquetParts;
import org.apache.iceberg.parquet.ParquetParts.Settings;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.HeapByteBufferAllocator;
import org.apache.iceberg.shaded.org.apache.parquet.column.ParquetProperties;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.CodecFactory.BytesCompressor;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ColumnChunkPageWriteStore;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.catalyst.InternalRow;
import tidemark.decode.Record;

/**
 * Writes rows of Spark to a Parquet file, a page of a column at a time.
 *
 * <p>Iceberg's own writer encodes each value as it comes: a dozen calls per value. Here some rows wait for each other,
 * are taken apart into arrays, one per column, and a column's array is encoded when it fills a page. Pages, row groups,
 * footer and metrics are those of the same table properties.
 */
final class ColumnarWriter implements FileAppender<InternalRow> {
  private static final int LOOK = 128; // rows between two looks at the pages
  private static final int TOGETHER = 16; // rows that are taken apart at once
  private static final int LONG = 16 * 1024; // bytes of a row beyond which none waits for others
  private static final int SMALL = 1024; // what the compressor's buffer begins with
  private static final String TRUNCATE = "parquet.columnindex.truncate.length";

  private final Schema schema;
  private final MessageType message;
  private final Settings settings;
  private final Map<String, String> metadata;
  private final MetricsConfig metricsConfig;
  private final OutputFile output;
  private final ParquetFileWriter.Mode mode;
  private final Configuration conf;
  private final int truncate;
  private final BytesCompressor compressor;
  private final Nested.Struct row;
  private final Limits limits;
  private final Leaf[] leaves;
  private final Memory memory;
  private final InternalRow[] waiting = new InternalRow[TOGETHER];
  private ColumnChunkPageWriteStore pages;
  private ParquetFileWriter writer;
  private int waits;
  private int enough = 1; // rows wait for so many
  private int unseen; // rows since the last look
  private long unseenBytes; // of these, as rows have them
  private long rows; // of this row group
  private int ordinal;
  private long buffered; // bytes of this row group at the last look
  private boolean closed;

  ColumnarWriter(
      Schema schema,
      MessageType message,
      Nested.Struct row,
      Limits limits,
      Settings settings,
      Map<String, String> metadata,
      MetricsConfig metricsConfig,
      OutputFile output,
      ParquetFileWriter.Mode mode,
      Configuration conf) {
    this.schema = schema;
    this.message = message;
    this.row = row;
    this.limits = limits;
    this.settings = settings;
    this.metadata = metadata;
    this.metricsConfig = metricsConfig;
    this.output = output;
    this.mode = mode;
    this.conf = conf;
    this.truncate = conf.getInt(TRUNCATE, ParquetProperties.DEFAULT_COLUMN_INDEX_TRUNCATE_LENGTH);
    BytesCompressor streams = new ParquetCodecFactory(conf, SMALL).getCompressor(settings.codec());
    this.compressor =
        settings.codec() == CompressionCodecName.ZSTD
            ? new ZstdPages(streams, conf.getInt(PARQUET_COMPRESS_ZSTD_LEVEL, DEFAULT_PARQUET_COMPRESS_ZSTD_LEVEL))
            : streams;
    List<Leaf> found = new ArrayList<>();
    row.leaves(found::add);
    this.leaves = found.toArray(new Leaf[0]);
    startRowGroup();
    this.memory = Memory.opened();
  }

  @Override
  public void add(InternalRow value) {
    waiting[waits++] = value;
    if (waits >= enough || !(value instanceof Record record && record.lasts())) {
      takeApart();
    }
  }

  private void takeApart() {
    if (waits == 0) {
      return;
    }
    int count = waits;
    long before = limits.taken();
    waits = 0; // first: closing after a failure must not take them again
    row.all(waiting, count);
    Arrays.fill(waiting, 0, count, null);
    long taken = limits.taken() - before;
    enough = taken > (long) LONG * count ? 1 : Math.min(TOGETHER, Memory.rowsPerFile());
    rows += count;
    unseen += count;
    unseenBytes += taken + (long) Long.BYTES * leaves.length * count;
    if (unseen >= LOOK || unseenBytes >= Memory.unseenPerFile() || limits.isOver()) {
      look();
    }
  }

  private void look() {
    limits.looked();
    unseen = 0;
    unseenBytes = 0;
    try {
      long now = limits.room();
      buffered = 0;
      for (Leaf leaf : leaves) {
        if (leaf.isFull()) {
          leaf.page();
        }
        buffered += leaf.buffered();
        now += leaf.held();
      }
      memory.holds(now);
      if (memory.isShort()) {
        endRowGroup();
        for (Leaf leaf : leaves) {
          leaf.shrink();
        }
        limits.release();
        memory.holds(0);
        startRowGroup();
      } else if (buffered >= settings.rowGroupBytes()) {
        endRowGroup();
        startRowGroup();
      }
    } catch (IOException error) {
      throw new UncheckedIOException("Failed to write pages of " + output.location(), error);
    }
  }

  private void startRowGroup() {
    pages =
        new ColumnChunkPageWriteStore(
            compressor,
            message,
            HeapByteBufferAllocator.getInstance(),
            truncate,
            ParquetProperties.DEFAULT_PAGE_WRITE_CHECKSUM_ENABLED,
            null,
            ordinal++);
    rows = 0;
    for (Leaf leaf : leaves) {
      leaf.start(pages.getPageWriter(leaf.descriptor));
    }
  }

  /** Of rows that were taken apart. */
  private void endRowGroup() throws IOException {
    if (rows == 0) {
      return;
    }
    if (writer == null) {
      writer =
          new ParquetFileWriter(
              ParquetParts.file(output, conf),
              message,
              mode,
              settings.rowGroupBytes(),
              0,
              truncate,
              ParquetProperties.DEFAULT_STATISTICS_TRUNCATE_LENGTH,
              ParquetProperties.DEFAULT_PAGE_WRITE_CHECKSUM_ENABLED);
      writer.start();
    }
    for (Leaf leaf : leaves) {
      leaf.page();
      leaf.end();
    }
    writer.startBlock(rows);
    pages.flushToFileWriter(writer);
    writer.endBlock();
    pages.close();
    buffered = 0;
  }

  @Override
  public Metrics metrics() {
    if (!closed) {
      throw new IllegalStateException("Cannot return metrics for unclosed writer");
    }
    if (writer == null) {
      return new Metrics(0L, null, null, null, null);
    }
    var floating = Arrays.stream(leaves).<FieldMetrics<?>>map(Leaf::metrics);
    return ParquetParts.metrics(
        schema, message, metricsConfig, writer.getFooter(), floating.filter(Objects::nonNull));
  }

  /** The bytes of the file, and what waits for it. */
  @Override
  public long length() {
    try {
      return (writer == null ? 0 : writer.getPos()) + (closed ? 0 : buffered);
    } catch (IOException error) {
      throw new UncheckedIOException("Failed to get the length of " + output.location(), error);
    }
  }

  @Override
  public List<Long> splitOffsets() {
    return writer == null ? null : ParquetUtil.getSplitOffsets(writer.getFooter());
  }

  @Override
  public void close() throws IOException {
    if (closed) {
      return;
    }
    closed = true;
    try {
      takeApart();
      endRowGroup();
      if (writer != null) {
        writer.end(metadata);
      }
    } finally {
      memory.close();
      compressor.release();
    }
  }
}
