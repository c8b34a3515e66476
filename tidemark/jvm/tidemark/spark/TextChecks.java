package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.StringType;
import tidemark.decode.Texts;

/**
 * Whether texts of one struct are valid UTF-8: an `is_valid_utf8`, several of them joined by AND, or by OR where each is
 * negated.
 *
 * <p>One call asks about all of them, where Spark has twenty lines of code for each.
 */
record TextChecks(Expression row, Texts texts) {
  /** Null for anything else. */
  static TextChecks of(Expression expression) {
    if (expression instanceof And and) {
      return both(of(and.left()), of(and.right()));
    }
    if (isOfText(expression)) {
      boolean isField = ((Invoke) expression).targetObject() instanceof GetStructField;
      return isField ? of((GetStructField) ((Invoke) expression).targetObject()) : null;
    }
    boolean isMade =
        expression instanceof Invoke invoke
            && invoke.targetObject() instanceof Literal literal
            && literal.value() instanceof Texts;
    return isMade ? made((Invoke) expression) : null;
  }

  /** What is said not to be, by NOT or by several of these joined by OR; null for anything else. */
  static TextChecks negated(Expression expression) {
    if (expression instanceof Or or) {
      return both(negated(or.left()), negated(or.right()));
    }
    return expression instanceof Not not ? of(not.child()) : null;
  }

  private static TextChecks of(GetStructField text) {
    return new TextChecks(text.child(), new Texts(text.ordinal()));
  }

  private static TextChecks made(Invoke invoke) {
    return new TextChecks(
        asJava(invoke.arguments()).get(0), (Texts) ((Literal) invoke.targetObject()).value());
  }

  private static TextChecks both(TextChecks one, TextChecks other) {
    boolean same = one != null && other != null && one.row.semanticEquals(other.row);
    return same ? new TextChecks(one.row, one.texts.and(other.texts)) : null;
  }

  /** Spark's own question, of any text. */
  static boolean isOfText(Expression expression) {
    return expression instanceof Invoke invoke
        && invoke.functionName().equals("isValid")
        && invoke.targetObject().dataType() instanceof StringType;
  }
}
