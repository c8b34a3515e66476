package tidemark.decode;

import java.io.Serializable;
import java.util.regex.Pattern;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Whether a regular expression is found in a text.
 *
 * <p>Java's needs a level of stack for each repetition of a group. Spark takes a stack that is too small for the end of
 * its JVM, so that one long text would stop all tables; here it is an exception like any other.
 */
public final class Matches implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String expression;
  private transient Pattern pattern;

  /** Throws where it is no regular expression: as the query is planned, not of each text. */
  public Matches(String expression) {
    this.expression = expression;
    this.pattern = Pattern.compile(expression);
  }

  public boolean in(UTF8String text) {
    if (pattern == null) {
      pattern = Pattern.compile(expression);
    }
    try {
      return pattern.matcher(text.toString()).find(0);
    } catch (StackOverflowError deep) {
      throw new IllegalStateException("no stack for " + expression + " and " + text.numBytes() + " bytes");
    }
  }

  /** So that Spark knows two of one expression for the same. */
  @Override
  public boolean equals(Object other) {
    return other instanceof Matches matches && expression.equals(matches.expression);
  }

  @Override
  public int hashCode() {
    return expression.hashCode();
  }
}
