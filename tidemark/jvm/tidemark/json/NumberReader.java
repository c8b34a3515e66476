package tidemark.json;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import tidemark.decode.Fault;
import tidemark.decode.Record;

/** Reads what a row holds as a number: `bits` of the column's type. */
abstract class NumberReader extends Reader {
  private static final long EXACT_IN_DOUBLE = 1L << 53;
  private static final double[] POWERS = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22
  };

  final Numeral numeral = new Numeral();
  Checks.Bounds bounds; // null for none
  long bits;

  /** Takes a value and says whether it is one, in `bits`; NULL is none. */
  abstract boolean read(Input in);

  /** `bits` as an object of the column's type. */
  abstract Object boxed();

  @Override
  void into(Input in, Record row, int field) {
    if (read(in)) {
      row.number(field, bits);
    }
  }

  @Override
  Object object(Input in) {
    return read(in) ? boxed() : null;
  }

  /** Takes a number; false for NULL and for what is none. */
  final boolean isNumber(Input in) {
    byte next = in.next();
    if (next == '-' || next >= '0' && next <= '9') {
      numeral.read(in);
      in.isInvalid |= bounds != null && !bounds.hold(numeral);
      return true;
    }
    if (!in.takeNull()) {
      misplaced(in);
    }
    return false;
  }

  /** Takes a text, which is the last one then; false for NULL and for what is none. */
  static boolean isText(Input in) {
    if (in.next() == '"') {
      in.string();
      return true;
    }
    if (!in.takeNull()) {
      misplaced(in);
    }
    return false;
  }

  static NumberReader bool() {
    return new NumberReader() {
      @Override
      boolean read(Input in) {
        switch (in.next()) {
          case 't':
            in.take("true");
            bits = 1;
            return true;
          case 'f':
            in.take("false");
            bits = 0;
            return true;
          case 'n':
            in.take("null");
            return false;
          default:
            misplaced(in);
            return false;
        }
      }

      @Override
      Object boxed() {
        return bits != 0;
      }
    };
  }

  /** Integers of 32 or 64 bits; 1.0 and 1e2 are some. */
  static NumberReader integer(int size, DataType type) {
    long least = Long.MIN_VALUE >> (Long.SIZE - size);
    return new NumberReader() {
      @Override
      boolean read(Input in) {
        if (!isNumber(in)) {
          return false;
        }
        if (numeral.isSmall && numeral.exponent == 0) {
          bits = numeral.isNegative ? -numeral.significand : numeral.significand;
          return isWithin(in, bits >= least && bits <= ~least);
        }
        if (numeral.hasFraction()) {
          in.mistype();
          return false;
        }
        BigDecimal value = numeral.value();
        if (value == null) {
          return isWithin(in, false);
        }
        BigInteger whole = value.toBigIntegerExact();
        bits = whole.longValue();
        return isWithin(in, whole.bitLength() < size);
      }

      private boolean isWithin(Input in, boolean isWithin) {
        if (!isWithin) {
          in.fail(Fault.OUT_OF_RANGE);
        }
        return isWithin;
      }

      @Override
      Object boxed() {
        if (type instanceof IntegerType) {
          return (int) bits;
        }
        if (!(type instanceof LongType)) {
          throw new IllegalStateException(type.sql());
        }
        return bits;
      }
    };
  }

  /** The nearest double of a fraction; an integer must be one exactly, and nothing becomes 0 or infinite. */
  static NumberReader real(DataType type) {
    return new NumberReader() {
      @Override
      boolean read(Input in) {
        if (!isNumber(in)) {
          return false;
        }
        double found = numeral.isWhole ? whole() : fraction();
        if (Double.isInfinite(found) || Double.isNaN(found)) {
          in.fail(Fault.OUT_OF_RANGE);
          return false;
        }
        bits = Double.doubleToRawLongBits(found);
        return true;
      }

      /** NaN where it has more digits than a double. */
      private double whole() {
        long size = numeral.significand;
        if (numeral.isSmall && size <= EXACT_IN_DOUBLE) {
          return numeral.isNegative ? -size : size; // -0 is the integer 0
        }
        double near = numeral.nearest();
        boolean isExact = Double.isInfinite(near) || new BigDecimal(near).compareTo(numeral.value()) == 0;
        return isExact ? near : Double.NaN;
      }

      /** NaN where a number became 0. */
      private double fraction() {
        long size = numeral.significand;
        long power = numeral.exponent;
        if (numeral.isSmall && size <= EXACT_IN_DOUBLE && Math.abs(power) < POWERS.length) {
          double found = power < 0 ? size / POWERS[(int) -power] : size * POWERS[(int) power];
          return numeral.isNegative ? -found : found;
        }
        double near = numeral.nearest();
        return near == 0 && !numeral.digits().isEmpty() ? Double.NaN : near;
      }

      @Override
      Object boxed() {
        if (!(type instanceof DoubleType)) {
          throw new IllegalStateException(type.sql());
        }
        return Double.longBitsToDouble(bits);
      }
    };
  }
}
