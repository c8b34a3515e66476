package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
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
import scala.Option;
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
  private static final Seq<String> NONE = ArraySeq.unsafeWrapArray(new String[0]);

  private final SparkPlan child;
  private final Seq<Attribute> output;
  private final int depth;
  private transient CodegenSupport parent;

  RecordsExec(ProjectExec child) {
    this(child, child.output(), 0);
  }

  /**
   * Columns of `output` that the child has not are fields of a row that it has behind the others. So many projections
   * below, that row is decoded (DecodedRows).
   */
  public RecordsExec(SparkPlan child, Seq<Attribute> output, int depth) {
    this.child = child;
    this.output = output;
    this.depth = depth;
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> values, ExprCode row) {
    List<Attribute> columns = asJava(output);
    ExprCode decoded = depth > 0 ? asJava(values).get(asJava(values).size() - 1) : null;
    boolean widens = isDecodedHere();
    int[] places = places();
    String name = Record.class.getName();
    String record = context.freshName("record");
    String made = "new %s(%d, %s)".formatted(name, columns.size(), lasts(child));
    if (widens) {
      String widened = "((%s) %s).widened(%d, %s)".formatted(name, decoded.value(), columns.size(), lasts(child));
      made = "%s ? %s : %s".formatted(decoded.isNull(), made, widened);
    }
    StringBuilder code = new StringBuilder("%s %s = %s;\n".formatted(name, record, made));
    for (int i = 0; i < columns.size(); i++) {
      DataType type = columns.get(i).dataType();
      if (places[i] >= 0) {
        ExprCode each = asJava(values).get(places[i]);
        String otherwise = widens ? "else %s.setNullAt(%d);".formatted(record, i) : "";
        String put = put(type, i, each.value().toString());
        code.append("if (!%s) %s.%s;%s\n".formatted(each.isNull(), record, put, otherwise));
      } else if (!widens) {
        String from = decoded.value().toString();
        String put = put(type, i, CodeGenerator.getValue(from, type, String.valueOf(i)));
        code.append(
            "if (!%s && !%s.isNullAt(%d)) %s.%s;\n".formatted(decoded.isNull(), from, i, record, put));
      }
    }
    return code + consume(context, null, record);
  }

  /** Whether the row comes as the decoder has made it; from another stage it comes as bytes. */
  private boolean isDecodedHere() {
    int found = 0;
    for (SparkPlan at = child; at instanceof ProjectExec project; at = project.child()) {
      found++;
    }
    return depth > 0 && found >= depth;
  }

  /** Where the child has each column, -1 for a field of its row. */
  private int[] places() {
    List<ExprId> given = asJava(child.output()).stream().map(Attribute::exprId).toList();
    return asJava(output).stream().mapToInt(column -> given.indexOf(column.exprId())).toArray();
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
    return depth > 0 ? new ProjectExec(takenApart(), child).execute() : child.execute();
  }

  private Seq<NamedExpression> takenApart() {
    List<Attribute> given = asJava(child.output());
    int[] places = places();
    NamedExpression[] columns = asJava(output).toArray(NamedExpression[]::new);
    for (int i = 0; i < columns.length; i++) {
      if (places[i] < 0) {
        Expression field = new GetStructField(given.get(given.size() - 1), i, Option.empty());
        columns[i] = new Alias(field, columns[i].name(), columns[i].exprId(), NONE, Option.empty(), NONE);
      }
    }
    return ArraySeq.unsafeWrapArray(columns);
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
    return ArraySeq.unsafeWrapArray(new SparkPlan[] {child});
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new RecordsExec(asJava(children).get(0), output, depth);
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? child : n == 1 ? output : depth;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RecordsExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RecordsExec records
        && child.equals(records.child)
        && output.equals(records.output)
        && depth == records.depth;
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode();
  }
}
