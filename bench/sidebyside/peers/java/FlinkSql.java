import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/** Run the statements of a file; all inserts as one job, to its end. */
public class FlinkSql {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.setString("parallelism.default", arguments[1]);
    configuration.setString("execution.checkpointing.interval", arguments[2]);
    configuration.setString("table.local-time-zone", "UTC");
    configuration.setString("restart-strategy.type", "none"); // a job that fails must end, not try for ever
    configuration.setString("taskmanager.memory.network.min", "64mb");
    configuration.setString("taskmanager.memory.network.max", "64mb");
    TableEnvironment environment =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
    StatementSet inserts = environment.createStatementSet();
    for (String statement : Files.readString(Path.of(arguments[0])).split(";\n")) {
      if (statement.startsWith("INSERT")) {
        inserts.addInsertSql(statement);
      } else {
        environment.executeSql(statement);
      }
    }
    inserts.execute().await();
    System.exit(0);
  }
}
