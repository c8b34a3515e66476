package tidemark.iceberg;

import java.lang.ref.Cleaner;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.jdbc.JdbcClientPool;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Iceberg's JDBC catalog, whose connections are closed when neither it nor a table of it is in use any more.
 *
 * <p>Each session of Spark has a catalog of its own, and closes none. A connection to SQLite holds two files open, and
 * does so when it is garbage.
 */
public final class ClosingJdbcCatalog extends JdbcCatalog {
  private static final Logger LOG = LoggerFactory.getLogger(ClosingJdbcCatalog.class);
  private static final Cleaner CLEANER = Cleaner.create();

  public ClosingJdbcCatalog() {
    super(null, Pool::new, true);
  }

  /** What catalog and tables have in common: while a table commits, its catalog may be garbage already. */
  private static final class Pool extends JdbcClientPool {
    private final Set<Connection> opened = ConcurrentHashMap.newKeySet();

    Pool(Map<String, String> properties) {
      super(properties.get(CatalogProperties.URI), properties);
      Set<Connection> left = opened; // the pool itself would else always be in use
      CLEANER.register(this, () -> left.forEach(Pool::closed));
    }

    @Override
    protected Connection newClient() {
      Connection made = super.newClient();
      opened.add(made);
      return made;
    }

    @Override
    protected void close(Connection client) {
      opened.remove(client);
      super.close(client);
    }

    private static void closed(Connection connection) {
      try {
        connection.close();
      } catch (SQLException cannot) {
        LOG.warn("A connection to the catalog stays open", cannot);
      }
    }
  }
}
