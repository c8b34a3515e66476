package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.ObjectType;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import tidemark.avro.AvroDecoder;

/**
 * Projections that only hand on what a decoder has made of a record: where columns are fields of its row, at the same
 * place, that row itself is handed on, and becomes the table's in RecordsExec, which puts the other columns into it.
 *
 * <p>So no other column may be that row, or hold it.
 */
final class DecodedRows {
  private final List<Level> levels; // from the top down, as far as to the fields
  private final Level decoding;
  private final GetStructField row;
  private final Attribute decoded; // of which the row is a field

  private DecodedRows(List<Level> levels, Level decoding, GetStructField row) {
    this.levels = levels;
    this.decoding = decoding;
    this.row = row;
    this.decoded = (Attribute) row.child();
  }

  /** The rows of `top` as Records. */
  static RecordsExec records(ProjectExec top) {
    List<Attribute> columns = asJava(top.output());
    List<Level> levels = new ArrayList<>();
    for (SparkPlan at = top; at instanceof ProjectExec each; at = each.child()) {
      levels.add(Level.of(each));
    }
    for (int i = 0; i < columns.size(); i++) {
      Field field = Field.of(levels, columns.get(i));
      if (field != null && field.place == i && field.level + 1 < levels.size()) {
        List<Level> above = levels.subList(0, field.level + 1);
        SparkPlan found = new DecodedRows(above, levels.get(field.level + 1), field.row).plan(columns);
        return found == null ? new RecordsExec(top) : new RecordsExec(found, top.output(), field.level + 2);
      }
    }
    return new RecordsExec(top);
  }

  /** A projection, and what its columns are made of. */
  private record Level(ProjectExec project, Map<ExprId, Expression> values) {
    static Level of(ProjectExec project) {
      Map<ExprId, Expression> values = new HashMap<>();
      asJava(project.projectList()).forEach(each -> values.put(each.exprId(), value(each)));
      return new Level(project, values);
    }

    List<NamedExpression> list() {
      return asJava(project.projectList());
    }
  }

  private static Expression value(NamedExpression entry) {
    return entry instanceof Alias alias ? alias.child() : (Expression) entry;
  }

  /** A column that is the field of a row at a place, which is a field of what a level has as a column. */
  private record Field(int level, GetStructField row, int place) {
    /** Null where a column is something else. */
    static Field of(List<Level> levels, Attribute column) {
      Expression value = column;
      for (int level = 0; value instanceof Attribute at && level < levels.size(); level++) {
        value = levels.get(level).values.get(at.exprId());
        if (value instanceof GetStructField field
            && field.child() instanceof GetStructField row
            && row.child() instanceof Attribute) {
          return new Field(level, row, field.ordinal());
        }
      }
      return null;
    }
  }

  /** The other columns, and behind them the row; null where that cannot be. */
  private SparkPlan plan(List<Attribute> columns) {
    Set<ExprId> others = new HashSet<>();
    for (int i = 0; i < columns.size(); i++) {
      if (!isOwn(columns.get(i), i)) {
        others.add(columns.get(i).exprId());
      }
    }
    List<List<NamedExpression>> lists = new ArrayList<>();
    for (Level level : levels) {
      lists.add(kept(level, others));
      others = used(lists.get(lists.size() - 1));
    }
    List<NamedExpression> lowest = lists.get(lists.size() - 1);
    ProjectExec made = wider(columns.size());
    if (made == null || lowest.stream().anyMatch(each -> holdsRow(value(each)))) {
      return null;
    }
    NamedExpression handed =
        new Alias(row, "_decoded_row", NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
    for (int level = levels.size() - 1; level >= 0; level--) {
      lists.get(level).add(handed);
      made = new ProjectExec(seq(lists.get(level)), made);
      handed = handed.toAttribute();
    }
    return made;
  }

  private boolean isOwn(Attribute column, int place) {
    Field field = Field.of(levels, column);
    return field != null
        && field.place == place
        && field.level == levels.size() - 1
        && field.row.semanticEquals(row);
  }

  private static List<NamedExpression> kept(Level level, Set<ExprId> ids) {
    return new ArrayList<>(level.list().stream().filter(each -> ids.contains(each.exprId())).toList());
  }

  private static Set<ExprId> used(List<NamedExpression> list) {
    Set<ExprId> found = new HashSet<>();
    for (NamedExpression each : list) {
      asJava(((Expression) each).references()).forEach(attribute -> found.add(attribute.exprId()));
    }
    return found;
  }

  /** Whether a value may be the row, or hold it. */
  private boolean holdsRow(Expression value) {
    if (isRow(value)) {
      return true;
    }
    boolean takenApart = value instanceof GetStructField field && isRow(field.child());
    return !takenApart
        && !(value.dataType() instanceof AtomicType)
        && asJava(value.children()).stream().anyMatch(this::holdsRow);
  }

  private boolean isRow(Expression value) {
    return value.semanticEquals(decoded) || value.semanticEquals(row);
  }

  /** The decoder, with rows that have room for so many columns; null where that is none of ours. */
  private ProjectExec wider(int columns) {
    if (!(decoding.values.get(decoded.exprId()) instanceof Invoke invoke
        && invoke.targetObject() instanceof Literal literal
        && literal.value() instanceof AvroDecoder decoder)) {
      return null;
    }
    AvroDecoder wide = decoder.widened(row.ordinal(), columns);
    if (wide == null) {
      return null;
    }
    List<Expression> parts = new ArrayList<>(asJava(invoke.children()));
    parts.set(0, Literal.fromObject(wide, new ObjectType(AvroDecoder.class)));
    Expression called = (Expression) invoke.withNewChildren(seq(parts));
    List<NamedExpression> list = new ArrayList<>(decoding.list());
    list.replaceAll(
        each -> each.exprId().equals(decoded.exprId()) ? remade((Alias) each, called) : each);
    return new ProjectExec(seq(list), decoding.project.child());
  }

  private static NamedExpression remade(Alias entry, Expression value) {
    return (NamedExpression) entry.withNewChildren(seq(List.of(value)));
  }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> seq(List<T> values) {
    return (Seq<T>) ArraySeq.unsafeWrapArray(values.toArray());
  }
}
