package tidemark.spark;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import tidemark.parquet.ColumnarParquet;

/** `spark.plugins=tidemark.spark.TidemarkPlugin`: Parquet files are written column by column, on all executors. */
public final class TidemarkPlugin implements SparkPlugin {
  private static volatile ClassLoader executors;

  /** Of the executors in this JVM, if there are any. */
  static Optional<ClassLoader> executorsLoader() {
    return Optional.ofNullable(executors);
  }

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        ColumnarParquet.register();
        return Map.of();
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void init(PluginContext context, Map<String, String> extra) {
        executors = Thread.currentThread().getContextClassLoader();
        ColumnarParquet.register();
      }
    };
  }
}
