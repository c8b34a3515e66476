package tidemark.avro;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import tidemark.decode.Record;

/** Reads a value of one schema: as an object of Spark, or into a field of a row. */
abstract class Reader {
  private static final long MOST_BYTES = limit("bytes.maxLength", 64L << 20);
  private static final long MOST_ITEMS = limit("collectionItems.maxLength", 1L << 22);

  abstract Object object(Input in);

  void into(Input in, Record row, int field) {
    row.update(field, object(in));
  }

  /** What `reader` does `into` a row. The classes that most values are of are named: Java looks up none for these. */
  private static void read(Reader reader, Input in, Record row, int field) {
    if (reader instanceof NumberReader number) {
      number.into(in, row, field);
    } else if (reader instanceof Text text) {
      text.into(in, row, field);
    } else {
      reader.into(in, row, field);
    }
  }

  /** Avro's own limits, and where a server was started without them those of `tidemark/domain/spark_server.py`. */
  private static long limit(String name, long otherwise) {
    return Long.getLong("org.apache.avro.limits." + name, otherwise);
  }

  private static long size(Input in) {
    long size = in.readLong();
    if (size > MOST_BYTES) {
      throw Malformed.INSTANCE;
    }
    return size;
  }

  static final Reader NULL =
      new Reader() {
        @Override
        Object object(Input in) {
          return null;
        }
      };

  static final Reader STRING = new Text();

  private static final class Text extends Reader {
    @Override
    UTF8String object(Input in) {
      long size = size(in);
      return UTF8String.fromBytes(in.bytes, in.take(size), (int) size); // of one array for all of a value
    }

    @Override
    void into(Input in, Record row, int field) {
      long size = size(in);
      row.text(field, in.take(size), (int) size);
    }
  }

  static final Reader BYTES =
      new Reader() {
        @Override
        Object object(Input in) {
          return in.copy(size(in));
        }
      };

  /** One array for values that are the same one after the other, as the headers of messages are. */
  static Reader fixed(int size) {
    return new Reader() {
      private byte[] last = new byte[size];

      @Override
      Object object(Input in) {
        int from = in.take(size);
        byte[] found = last; // which another thread may replace
        if (!Arrays.equals(in.bytes, from, from + size, found, 0, size)) {
          found = Arrays.copyOfRange(in.bytes, from, from + size);
          last = found;
        }
        return found;
      }
    };
  }

  /** The last field of a value, of the length of the bytes behind it. */
  static Reader end(byte[] behind) {
    return new Reader() {
      @Override
      Object object(Input in) {
        return in.upTo(behind);
      }
    };
  }

  static Reader decimal(Reader bytes, DecimalType type) {
    int precision = type.precision();
    int scale = type.scale();
    return new Reader() {
      @Override
      Object object(Input in) {
        BigInteger unscaled = new BigInteger((byte[]) bytes.object(in));
        return precision <= Decimal.MAX_LONG_DIGITS()
            ? Decimal.apply(unscaled.longValue(), precision, scale)
            : Decimal.apply(new BigDecimal(unscaled, scale), precision, scale);
      }
    };
  }

  static Reader symbol(List<String> symbols) {
    UTF8String[] texts = symbols.stream().map(UTF8String::fromString).toArray(UTF8String[]::new);
    return new Reader() {
      @Override
      Object object(Input in) {
        return texts[in.readInt()];
      }
    };
  }

  /** A branch for each index of the union, read as it stands: one value beside NULL. */
  static Reader optional(Reader[] branches) {
    return new Reader() {
      @Override
      Object object(Input in) {
        return branches[in.readInt()].object(in);
      }

      @Override
      void into(Input in, Record row, int field) {
        read(branches[in.readInt()], in, row, field);
      }
    };
  }

  /** A struct with a field per branch that is not null, all NULL but one; `fields` has -1 for null. */
  static Reader union(Reader[] branches, int[] fields, int width) {
    return new Reader() {
      @Override
      Object object(Input in) {
        int branch = in.readInt();
        if (fields[branch] < 0) {
          return null;
        }
        Record row = new Record(width, width, in.bytes);
        branches[branch].into(in, row, fields[branch]);
        return row;
      }
    };
  }

  /** A record, whose row may have room for more than its fields. */
  static final class Fields extends Reader {
    private final Reader[] fields;
    private int room;

    Fields(Reader[] fields) {
      this.fields = fields;
      this.room = fields.length;
    }

    boolean hasRecords(int field) {
      return fields[field] instanceof Fields;
    }

    /** The rows of a field that holds records have room for so many. */
    void widen(int field, int most) {
      if (fields[field] instanceof Fields records) {
        records.room = Math.max(most, records.room);
      }
    }

    @Override
    Object object(Input in) {
      Record row = new Record(fields.length, room, in.bytes);
      for (int i = 0; i < fields.length; i++) {
        read(fields[i], in, row, i);
      }
      return row;
    }
  }

  static Reader list(Reader items) {
    return new Reader() {
      @Override
      Object object(Input in) {
        List<Object> found = new ArrayList<>();
        for (long count = count(in); count != 0; count = count(in)) {
          if (count > MOST_ITEMS - found.size()) {
            throw Malformed.INSTANCE;
          }
          for (long i = 0; i < count; i++) {
            found.add(items.object(in));
          }
        }
        return new GenericArrayData(found.toArray());
      }
    };
  }

  /** Of a block; a negative one is followed by the block's size in bytes. */
  private static long count(Input in) {
    long count = in.readLong();
    if (count < 0) {
      in.readLong();
      count = -count;
    }
    if (count < 0) {
      throw Malformed.INSTANCE;
    }
    return count;
  }
}
