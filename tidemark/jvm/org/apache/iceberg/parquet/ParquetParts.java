package org.apache.iceberg.parquet;

import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.FieldMetrics;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.Schema;
import org.apache.iceberg.shaded.org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.iceberg.shaded.org.apache.parquet.io.OutputFile;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;

/** What Iceberg's Parquet writer is made of and keeps to its package: table properties, files, metrics. */
public final class ParquetParts {
  private ParquetParts() {}

  /** The properties of data files that a writer of plain pages needs. */
  public record Settings(
      long rowGroupBytes,
      int pageBytes,
      int pageRows,
      int dictionaryBytes,
      boolean dictionary,
      CompressionCodecName codec,
      String level) {}

  /** Null where the properties ask for more: bloom filters, other pages, or columns that are written differently. */
  public static Settings settings(Map<String, String> properties) {
    Parquet.WriteBuilder.Context context = Parquet.WriteBuilder.Context.dataContext(properties);
    boolean plain =
        context.writerVersion() == WriterVersion.PARQUET_1_0
            && context.columnBloomFilterEnabled().isEmpty()
            && context.columnStatsEnabled().isEmpty()
            && context.columnDictionaryEncodingEnabled().isEmpty()
            && !context.trackUncompressedRowGroupSize();
    return !plain
        ? null
        : new Settings(
            context.rowGroupSize(),
            context.pageSize(),
            context.pageRowLimit(),
            context.dictionaryPageSize(),
            context.dictionaryEnabled(),
            context.codec(),
            context.compressionLevel());
  }

  public static OutputFile file(org.apache.iceberg.io.OutputFile file, Configuration conf) {
    return ParquetIO.file(file, conf);
  }

  public static Metrics metrics(
      Schema schema, MessageType type, MetricsConfig config, ParquetMetadata footer, Stream<FieldMetrics<?>> fields) {
    return ParquetMetrics.metrics(schema, type, config, footer, fields);
  }
}
