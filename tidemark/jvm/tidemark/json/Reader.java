package tidemark.json;

import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Record;

/** Reads the values of one place in documents: as objects of Spark, or into a field of a row. */
abstract class Reader {
  /** Null for NULL, and for what does not land. */
  abstract Object object(Input in);

  void into(Input in, Record row, int field) {
    row.update(field, object(in));
  }

  /** Passes over a value that does not belong here; one that is no JSON is worse. */
  static Object misplaced(Input in) {
    in.mistype();
    Text.NOWHERE.value(in, new Numeral());
    return null;
  }

  static final Reader STRING =
      new Reader() {
        @Override
        Object object(Input in) {
          if (in.next() == '"') {
            in.string();
            return in.lastText();
          }
          return in.takeNull() ? null : misplaced(in);
        }
      };

  /** Any value, as its text. */
  static Reader text() {
    Numeral numeral = new Numeral();
    return new Reader() {
      @Override
      Object object(Input in) {
        if (in.takeNull()) {
          return null;
        }
        Text text = new Text();
        text.value(in, numeral);
        return text.all();
      }
    };
  }

  /** The whole document as it came. */
  static Reader document() {
    Numeral numeral = new Numeral();
    return new Reader() {
      @Override
      Object object(Input in) {
        int from = in.at;
        Text.NOWHERE.value(in, numeral);
        return UTF8String.fromBytes(in.bytes, from, in.bytes.length - from);
      }
    };
  }
}
