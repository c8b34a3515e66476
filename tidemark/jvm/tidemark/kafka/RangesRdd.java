package tidemark.kafka;

import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.reflect.ClassTag$;

/** The records of ranges of offsets, read by a RangesReader for each task. */
public final class RangesRdd extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  private final transient List<Ranges> ranges;
  private final boolean pauses;

  public RangesRdd(SparkContext context, List<Ranges> ranges, boolean pauses) {
    super(context, ArraySeq.unsafeWrapArray(new Dependency<?>[0]), ClassTag$.MODULE$.apply(InternalRow.class));
    this.ranges = ranges;
    this.pauses = pauses;
  }

  @Override
  public Partition[] getPartitions() {
    return ranges.toArray(new Partition[0]);
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    RangesReader reader = new RangesReader(((Ranges) partition).all(), context, pauses);
    context.addTaskCompletionListener((TaskCompletionListener) ended -> reader.close());
    return reader;
  }
}
