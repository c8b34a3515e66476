package tidemark.iceberg;

import java.lang.ref.Cleaner;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.jdbc.JdbcClientPool;

/**
 * Iceberg's JDBC catalog, whose connections are closed when nothing uses it any more.
 *
 * <p>Each session of Spark has a catalog of its own, and closes none. A connection to SQLite holds two files open, and
 * does so when it is garbage.
 */
public final class ClosingJdbcCatalog extends JdbcCatalog {
  private static final Cleaner CLEANER = Cleaner.create();

  public ClosingJdbcCatalog() {
    this(new Connections());
  }

  private ClosingJdbcCatalog(Connections connections) {
    super(null, connections::opened, true);
    CLEANER.register(this, connections);
  }

  /** Knows nothing of its catalog, which would else always be in use. */
  private static final class Connections implements Runnable {
    private volatile JdbcClientPool pool;

    JdbcClientPool opened(Map<String, String> properties) {
      pool = new JdbcClientPool(properties.get(CatalogProperties.URI), properties);
      return pool;
    }

    @Override
    public void run() {
      if (pool != null) {
        pool.close();
      }
    }
  }
}
