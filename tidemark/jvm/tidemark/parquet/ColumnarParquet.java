package tidemark.parquet;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.NativeEncryptionOutputFile;
import org.apache.iceberg.formats.FormatModel;
import org.apache.iceberg.formats.FormatModels;
import org.apache.iceberg.formats.ModelWriteBuilder;
import org.apache.iceberg.formats.ReadBuilder;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.parquet.ParquetParts;
import org.apache.iceberg.parquet.ParquetParts.Settings;
import org.apache.iceberg.parquet.ParquetSchemaUtil;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.codec.ZstandardCodec;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Iceberg's format model of Parquet for Spark's rows, whose data files a ColumnarWriter writes where it can. */
public final class ColumnarParquet implements FormatModel<InternalRow, StructType> {
  private static volatile Configured last;

  private final FormatModel<InternalRow, StructType> own;

  private ColumnarParquet(FormatModel<InternalRow, StructType> own) {
    this.own = own;
  }

  /** Every data file that this JVM writes from now on. */
  public static synchronized void register() {
    FormatModel<InternalRow, StructType> own = FormatModels.registered(FileFormat.PARQUET, InternalRow.class);
    if (own != null && !(own instanceof ColumnarParquet)) {
      FormatModels.replace(new ColumnarParquet(own));
    }
  }

  @Override
  public FileFormat format() {
    return FileFormat.PARQUET;
  }

  @Override
  public Class<? extends InternalRow> type() {
    return own.type();
  }

  @Override
  public Class<StructType> schemaType() {
    return own.schemaType();
  }

  @Override
  public ReadBuilder<InternalRow, StructType> readBuilder(InputFile inputFile) {
    return own.readBuilder(inputFile);
  }

  @Override
  public ModelWriteBuilder<InternalRow, StructType> writeBuilder(EncryptedOutputFile outputFile) {
    return new Builder(own.writeBuilder(outputFile), outputFile);
  }

  /** What the files of a table have in common: a copy for each is twice what an open file takes besides. */
  private record Configured(Configuration base, Map<String, String> properties, Configuration conf) {}

  /** Tells Iceberg's own builder everything too, which builds where this one does not. */
  private static final class Builder implements ModelWriteBuilder<InternalRow, StructType> {
    private final ModelWriteBuilder<InternalRow, StructType> own;
    private final EncryptedOutputFile file;
    private final Map<String, String> properties = new LinkedHashMap<>();
    private final Map<String, String> metadata = new LinkedHashMap<>();
    private MetricsConfig metricsConfig = MetricsConfig.getDefault();
    private ParquetFileWriter.Mode mode = ParquetFileWriter.Mode.CREATE;
    private Schema schema;
    private StructType rows;
    private boolean plain; // data that is not encrypted

    Builder(ModelWriteBuilder<InternalRow, StructType> own, EncryptedOutputFile file) {
      this.own = own;
      this.file = file;
      this.plain = !(file instanceof NativeEncryptionOutputFile);
    }

    @Override
    public FileAppender<InternalRow> build() throws IOException {
      Settings settings = plain && rows != null && schema != null ? ParquetParts.settings(properties) : null;
      if (settings == null || (settings.level() != null && settings.codec() != CompressionCodecName.ZSTD)) {
        return own.build();
      }
      MessageType message = ParquetSchemaUtil.convert(schema, "table");
      Limits limits =
          new Limits(
              settings.pageRows(), settings.pageBytes(), settings.dictionaryBytes(), settings.dictionary());
      Optional<Nested.Struct> row = Columns.of(rows, message, limits);
      if (row.isEmpty()) {
        return own.build();
      }
      OutputFile output = file.encryptingOutputFile();
      Configuration conf = configuration(output, settings.level());
      metadata.put("iceberg.schema", SchemaParser.toJson(schema));
      metadata.put("tidemark.writer", "columnar");
      return new ColumnarWriter(
          schema, message, row.get(), limits, settings, metadata, metricsConfig, output, mode, conf);
    }

    private Configuration configuration(OutputFile output, String level) {
      Configuration base = output instanceof HadoopOutputFile hadoop ? hadoop.getConf() : null;
      Configured found = last;
      if (found == null || found.base != base || !found.properties.equals(properties)) {
        Configuration conf = base == null ? new Configuration() : new Configuration(base);
        properties.forEach(conf::set);
        if (level != null) {
          conf.set(ZstandardCodec.PARQUET_COMPRESS_ZSTD_LEVEL, level);
        }
        found = new Configured(base, Map.copyOf(properties), conf);
        last = found;
      }
      return found.conf;
    }

    @Override
    public Builder schema(Schema told) {
      own.schema(told);
      schema = told;
      return this;
    }

    @Override
    public Builder engineSchema(StructType told) {
      own.engineSchema(told);
      rows = told;
      return this;
    }

    @Override
    public Builder set(String property, String value) {
      own.set(property, value);
      properties.put(property, value);
      return this;
    }

    @Override
    public Builder meta(String property, String value) {
      own.meta(property, value);
      metadata.put(property, value);
      return this;
    }

    @Override
    public Builder content(FileContent told) {
      own.content(told);
      plain &= told == FileContent.DATA;
      return this;
    }

    @Override
    public Builder metricsConfig(MetricsConfig told) {
      own.metricsConfig(told);
      metricsConfig = told;
      return this;
    }

    @Override
    public Builder overwrite() {
      own.overwrite();
      mode = ParquetFileWriter.Mode.OVERWRITE;
      return this;
    }

    @Override
    public Builder withFileEncryptionKey(ByteBuffer key) {
      own.withFileEncryptionKey(key);
      plain &= key == null;
      return this;
    }

    @Override
    public Builder withAADPrefix(ByteBuffer prefix) {
      own.withAADPrefix(prefix);
      plain &= prefix == null;
      return this;
    }
  }
}
