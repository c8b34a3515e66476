package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;
import static scala.jdk.javaapi.CollectionConverters.asScala;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import tidemark.kafka.Ranges;
import tidemark.kafka.RangesRdd;

/**
 * Reads ranges of Kafka's offsets: what Spark's BatchScanExec does with a source, without its six calls around each row.
 *
 * <p>Whose reader pauses (see RangesReader) has a PassingExec above, with nothing between that keeps rows.
 */
public final class RangesExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final Seq<Attribute> output;
  private final transient List<Ranges> ranges;
  private final boolean pauses;

  public RangesExec(Seq<Attribute> output, List<Ranges> ranges, boolean pauses) {
    this.output = output;
    this.ranges = ranges;
    this.pauses = pauses;
  }

  /** By so many tasks at most; null for what is Spark's to read. */
  @SuppressWarnings("unchecked")
  static RangesExec of(BatchScanExec read, int tasks) {
    List<Ranges> ranges = Ranges.of(asJava(read.inputPartitions()), tasks);
    return ranges == null ? null : new RangesExec((Seq<Attribute>) (Seq<?>) read.output(), ranges, false);
  }

  RangesExec pausing() {
    return new RangesExec(output, ranges, true);
  }

  boolean isOneTask() {
    return ranges.size() == 1;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new RangesRdd(sparkContext(), ranges, pauses);
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  @Override
  public Seq<SparkPlan> children() {
    return ArraySeq.unsafeWrapArray(new SparkPlan[0]);
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? output : n == 1 ? ranges : (Object) pauses;
  }

  /** Of ranges no more than how many tasks read them: Kafka's settings are among what they hold. */
  @Override
  public Iterator<Object> stringArgs() {
    return asScala(List.<Object>of(output, ranges.size() + " tasks", pauses).iterator());
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RangesExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RangesExec read
        && output.equals(read.output)
        && ranges.equals(read.ranges)
        && pauses == read.pauses;
  }

  @Override
  public int hashCode() {
    return 31 * output.hashCode() + ranges.hashCode();
  }
}
