package tidemark.spark;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.service.SparkConnectService$;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's Connect server, whose sessions have their class loader in common where `spark.sql.artifact.isolation.enabled`
 * is false: the code that Spark generates for a plan is compiled once.
 *
 * <p>Spark's own main gives each session a class loader of its own, whatever the setting says, and so generates, loads
 * and warms up the code of each plan anew in each session: in each run. And the driver compiles it with another than its
 * executors, so that a server which is its own executor would have it twice: here both have the executors'.
 */
public final class ConnectServer {
  private static final Logger LOG = LoggerFactory.getLogger(ConnectServer.class);

  private ConnectServer() {}

  public static void main(String[] arguments) throws InterruptedException {
    SparkSession session = SparkSession.builder().getOrCreate();
    TidemarkPlugin.executorsLoader().ifPresent(Thread.currentThread()::setContextClassLoader); // threads inherit it
    try {
      SparkConnectService$.MODULE$.start(session.sparkContext());
    } catch (Exception cannot) { // of Scala, where any may be thrown
      LOG.error("The Connect server does not start", cannot);
      System.exit(1);
    }
    SparkConnectService$.MODULE$.server().awaitTermination();
    session.stop();
  }
}
