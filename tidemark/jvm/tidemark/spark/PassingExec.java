package tidemark.spark;

import java.io.Serializable;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import tidemark.kafka.RangesReader;

/**
 * A filter, and a projection to the first columns of its rows: the rows themselves, which have further columns behind.
 *
 * <p>Only a writer may be its parent, for that asks rows for their columns by position. Anything that copies rows by
 * their layout would be misled. It asks its rows once more where their reader has only paused (RangesReader).
 */
public final class PassingExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final Expression condition;
  private final Seq<Attribute> output;
  private final SparkPlan child;

  public PassingExec(Expression condition, Seq<Attribute> output, SparkPlan child) {
    this.condition = condition;
    this.output = output;
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child
        .execute()
        .mapPartitionsWithIndex(
            new Passed(condition, child.output()), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Seq<SparkPlan> children() {
    return ArraySeq.unsafeWrapArray(new SparkPlan[] {child});
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new PassingExec(condition, output, CollectionConverters.asJava(children).get(0));
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? condition : n == 1 ? output : child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof PassingExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PassingExec passing
        && condition.equals(passing.condition)
        && output.equals(passing.output)
        && child.equals(passing.child);
  }

  @Override
  public int hashCode() {
    return 31 * condition.hashCode() + child.hashCode();
  }

  /** The rows of a partition that fulfil the condition. */
  private static final class Passed
      extends AbstractFunction2<Object, Iterator<InternalRow>, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Expression condition;
    private final Seq<Attribute> input;

    Passed(Expression condition, Seq<Attribute> input) {
      this.condition = condition;
      this.input = input;
    }

    @Override
    public Iterator<InternalRow> apply(Object partition, Iterator<InternalRow> rows) {
      BasePredicate predicate = Predicate$.MODULE$.create(condition, input);
      predicate.initialize((Integer) partition);
      return new AbstractIterator<>() {
        private InternalRow found;

        @Override
        public boolean hasNext() {
          while (found == null) {
            if (rows.hasNext()) {
              InternalRow row = rows.next();
              found = predicate.eval(row) ? row : null;
            } else if (!RangesReader.hasPaused()) {
              return false;
            }
          }
          return true;
        }

        @Override
        public InternalRow next() {
          InternalRow row = found;
          found = null;
          return row;
        }
      };
    }
  }
}
