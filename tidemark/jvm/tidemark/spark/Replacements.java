package tidemark.spark;

import static scala.jdk.javaapi.CollectionConverters.asJava;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.avro.AvroDataToCatalyst;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Concat;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import tidemark.avro.AvroDecoder;
import tidemark.decode.Decoder;
import tidemark.decode.Matches;
import tidemark.decode.Utf8;

/** Expressions of Spark, and those that take their place. */
final class Replacements {
  private static final Seq<AbstractDataType> AS_THEY_ARE = seq();

  private static final Map<String, String> OPTIONS =
      Map.of("mode", "PERMISSIVE", "datetimeRebaseMode", "CORRECTED");

  private Replacements() {}

  /** Null where nothing takes its place. */
  static Expression of(Expression expression) {
    if (expression instanceof AvroDataToCatalyst avro) {
      return avro(avro);
    }
    if (expression instanceof PythonUDF udf && udf.dataType() instanceof StructType type) {
      Decoder decoder = Decoder.of(udf.name(), type);
      return decoder == null ? null : called(decoder, "decode", type, udf.children(), false);
    }
    TextChecks checks = expression instanceof Or ? TextChecks.negated(expression) : TextChecks.of(expression);
    if (checks != null) {
      Expression valid = called(checks.texts(), "areValid", DataTypes.BooleanType, seq(checks.row()), true);
      return expression instanceof Or ? new Not(valid) : valid;
    }
    if (TextChecks.isOfText(expression)) {
      return new StaticInvoke(
          Utf8.class,
          DataTypes.BooleanType,
          "isValid",
          seq(((Invoke) expression).targetObject()),
          AS_THEY_ARE,
          true,
          expression.nullable(),
          true,
          Option.empty());
    }
    if (expression instanceof RLike like
        && like.left().dataType() == DataTypes.StringType
        && like.right() instanceof Literal pattern
        && pattern.value() != null) {
      return called(new Matches(pattern.value().toString()), "in", DataTypes.BooleanType, seq(like.left()), true);
    }
    return null;
  }

  private static Expression avro(AvroDataToCatalyst avro) {
    boolean plain = asJava(avro.options()).equals(OPTIONS) && !avro.child().foldable();
    if (!plain || !(avro.dataType() instanceof StructType type)) {
      return null;
    }
    Appended found = Appended.of(avro.child());
    AvroDecoder ending =
        found == null ? null : AvroDecoder.of(avro.jsonFormatSchema(), type, found.bytes());
    if (ending != null) {
      return called(ending, "decode", type, seq(found.value()), true);
    }
    AvroDecoder decoder = AvroDecoder.of(avro.jsonFormatSchema(), type);
    return decoder == null ? null : called(decoder, "decode", type, seq(avro.child()), true);
  }

  /** A value, NULL where a condition is not fulfilled, and the bytes that an expression puts behind it. */
  private record Appended(Expression value, byte[] bytes) {
    /** Null where nothing is appended. */
    static Appended of(Expression expression) {
      List<Expression> parts = asJava(expression.children());
      if (expression instanceof CaseWhen && parts.size() == 2) { // a condition, a value, and nothing else
        Appended found = of(parts.get(1));
        return found == null
            ? null
            : new Appended(new CaseWhen(seq(Tuple2.apply(parts.get(0), found.value)), Option.empty()), found.bytes);
      }
      boolean isOne =
          expression instanceof Concat
              && parts.size() == 2
              && parts.get(1) instanceof Literal end
              && end.value() instanceof byte[];
      return isOne ? new Appended(parts.get(0), (byte[]) ((Literal) parts.get(1)).value()) : null;
    }
  }

  /** A pure one gives NULL for NULL; what stands for a function of Python is evaluated once, as that is. */
  private static Expression called(
      Object on, String method, DataType type, Seq<Expression> arguments, boolean isPure) {
    return new Invoke(
        Literal.fromObject(on, new ObjectType(on.getClass())),
        method,
        type,
        arguments,
        AS_THEY_ARE,
        isPure,
        isPure,
        isPure);
  }

  @SafeVarargs
  private static <T> Seq<T> seq(T... values) {
    return ArraySeq.unsafeWrapArray(values);
  }
}
