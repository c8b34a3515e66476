package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RangeExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import tidemark.decode.Record;

/**
 * The rows of generated code as Records, whose values are where they were: Spark copies all of them into bytes first.
 *
 * <p>Only what asks rows for their columns by position may be its parent. Where Spark generates no code, rows are the
 * child's own.
 */
public final class RecordsExec extends SparkPlan implements CodegenSupport {
  private static final long serialVersionUID = 1L;

  private final SparkPlan child;
  private transient CodegenSupport parent;

  public RecordsExec(SparkPlan child) {
    this.child = child;
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> values, ExprCode row) {
    List<Attribute> columns = asJava(output());
    String name = Record.class.getName();
    String record = context.freshName("record");
    String made = "%1$s %2$s = new %1$s(%3$d, %4$s);\n".formatted(name, record, columns.size(), lasts(child));
    StringBuilder code = new StringBuilder(made);
    for (int i = 0; i < columns.size(); i++) {
      ExprCode each = asJava(values).get(i);
      String put = put(columns.get(i).dataType(), i, each.value().toString());
      code.append("if (!%s) %s.%s;\n".formatted(each.isNull(), record, put));
    }
    return code + consume(context, null, record);
  }

  /**
   * Whether values are objects of their own from the first operator on. Others fill the bytes of their rows anew for each
   * row, and texts, lists and structs of such a row lie in these; so do operators whose code is no part of this stage.
   */
  private static boolean lasts(SparkPlan plan) {
    if (plan instanceof InputAdapter beside) {
      return beside.child() instanceof RangesExec;
    }
    boolean passes = plan instanceof ProjectExec || plan instanceof FilterExec;
    return plan instanceof RangesExec || plan instanceof RangeExec || passes && lasts(asJava(plan.children()).get(0));
  }

  private static String put(DataType type, int ordinal, String value) {
    String bits = bits(type, value);
    return bits == null
        ? "update(%d, %s)".formatted(ordinal, value)
        : "number(%d, %s)".formatted(ordinal, bits);
  }

  /** A number as its Record keeps it; null for other types. */
  private static String bits(DataType type, String value) {
    if (type instanceof BooleanType) {
      return value + " ? 1L : 0L";
    }
    if (type instanceof FloatType) {
      return "Float.floatToRawIntBits(" + value + ")";
    }
    if (type instanceof DoubleType) {
      return "Double.doubleToRawLongBits(" + value + ")";
    }
    return CodeGenerator.isPrimitiveType(type) ? value : null;
  }

  @Override
  public AttributeSet usedInputs() {
    return child.outputSet();
  }

  @Override
  public String doProduce(CodegenContext context) {
    return ((CodegenSupport) child).produce(context, this);
  }

  @Override
  public Seq<RDD<InternalRow>> inputRDDs() {
    return ((CodegenSupport) child).inputRDDs();
  }

  @Override
  public CodegenSupport parent() {
    return parent;
  }

  @Override
  public void parent_$eq(CodegenSupport told) {
    parent = told;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Seq<SparkPlan> children() {
    return ArraySeq.unsafeWrapArray(new SparkPlan[] {child});
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new RecordsExec(asJava(children).get(0));
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RecordsExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RecordsExec records && child.equals(records.child);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode();
  }
}
