package tidemark.avro;

import java.util.Map;
import org.apache.spark.sql.avro.AvroDataToCatalyst;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Expressions of Spark, and those that take their place. */
public final class Replacements {
  private static final Seq<AbstractDataType> AS_THEY_ARE = seq();

  private static final Map<String, String> OPTIONS =
      Map.of("mode", "PERMISSIVE", "datetimeRebaseMode", "CORRECTED");

  private Replacements() {}

  /** Null where nothing takes its place. */
  public static Expression of(Expression expression) {
    if (expression instanceof AvroDataToCatalyst avro) {
      return decoded(avro);
    }
    if (expression instanceof Invoke invoke
        && invoke.functionName().equals("isValid")
        && invoke.targetObject().dataType() instanceof StringType) {
      return new StaticInvoke(
          Utf8.class,
          DataTypes.BooleanType,
          "isValid",
          seq(invoke.targetObject()),
          AS_THEY_ARE,
          true,
          invoke.nullable(),
          true,
          scala.Option.empty());
    }
    return null;
  }

  private static Expression decoded(AvroDataToCatalyst avro) {
    boolean plain = CollectionConverters.asJava(avro.options()).equals(OPTIONS) && !avro.child().foldable();
    if (!plain || !(avro.dataType() instanceof StructType type)) {
      return null;
    }
    AvroDecoder decoder = AvroDecoder.of(avro.jsonFormatSchema(), type);
    if (decoder == null) {
      return null;
    }
    return new Invoke(
        Literal.fromObject(decoder, new ObjectType(AvroDecoder.class)),
        "decode",
        type,
        seq(avro.child()),
        AS_THEY_ARE,
        true,
        true,
        true);
  }

  private static <T> Seq<T> seq(Object... values) {
    return ArraySeq.unsafeWrapArray(values);
  }
}
