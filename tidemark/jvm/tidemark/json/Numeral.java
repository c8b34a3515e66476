package tidemark.json;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import tidemark.decode.Fault;

/** A number as it is written: a significand without a point, and a power of ten. */
final class Numeral {
  private static final int SMALL = 18; // digits that a long holds, whatever they are
  private static final int MOST_DIGITS = 4_300; // before the point; more are no JSON to the Python decoder
  private static final long MOST_EXPONENT = 999_999_999_999_999_999L;
  private static final long LEAST_EXPONENT = -1_999_999_999_999_999_997L;

  boolean isNegative;

  /** Written without point and exponent. */
  boolean isWhole;

  /** Whether `significand` is all of it. */
  boolean isSmall;

  long significand;

  /** Of ten, for the significand. */
  long exponent;

  private byte[] bytes;
  private int start;
  private int point;
  private int digitsEnd;

  /** Takes the number that stands next. */
  void read(Input in) {
    bytes = in.bytes;
    int at = in.at;
    isNegative = bytes[at] == '-';
    if (isNegative) {
      at++;
    }
    start = at;
    significand = 0;
    at = digits(at, true);
    point = at;
    isWhole = true;
    if (at < bytes.length && bytes[at] == '.') {
      isWhole = false;
      at = digits(at + 1, false);
    }
    digitsEnd = at;
    exponent = isWhole ? 0 : point + 1 - digitsEnd;
    isSmall = digitsEnd - start <= SMALL; // the point counted as well
    if (at < bytes.length && (bytes[at] | 0x20) == 'e') {
      isWhole = false;
      at = power(at + 1);
    }
    if (point - start > MOST_DIGITS || !isWhole && isBeyond()) {
      throw Fault.UNDECODABLE;
    }
    in.at = at;
  }

  /** Beyond what a Decimal of Python holds. */
  private boolean isBeyond() {
    if (Math.abs(exponent) < MOST_EXPONENT >> 1) {
      return false;
    }
    return exponent < LEAST_EXPONENT || exponent + Math.max(digits().length(), 1) - 1 > MOST_EXPONENT;
  }

  private int digits(int from, boolean isFirst) {
    int at = from;
    long found = significand;
    while (at < bytes.length && bytes[at] >= '0' && bytes[at] <= '9') {
      found = found * 10 + (bytes[at++] - '0');
    }
    if (at == from || isFirst && bytes[from] == '0' && at > from + 1) {
      throw Fault.UNDECODABLE;
    }
    significand = found;
    return at;
  }

  private int power(int from) {
    int at = from;
    boolean isBelow = at < bytes.length && bytes[at] == '-';
    if (at < bytes.length && (isBelow || bytes[at] == '+')) {
      at++;
    }
    int first = at;
    long found = 0;
    for (; at < bytes.length && bytes[at] >= '0' && bytes[at] <= '9'; at++) {
      found = found < -LEAST_EXPONENT / 5 ? found * 10 + (bytes[at] - '0') : -2 * LEAST_EXPONENT;
    }
    if (at == first) {
      throw Fault.UNDECODABLE;
    }
    exponent += isBelow ? -found : found;
    return at;
  }

  /** The significand's digits without leading zeros; empty for zero. */
  String digits() {
    String all = text(start, point);
    if (digitsEnd > point) {
      all += text(point + 1, digitsEnd);
    }
    int zeros = 0;
    while (zeros < all.length() && all.charAt(zeros) == '0') {
      zeros++;
    }
    return all.substring(zeros);
  }

  /** The value; null where it has so many digits that no column holds it. */
  BigDecimal value() {
    String digits = digits();
    if (digits.isEmpty()) {
      return BigDecimal.ZERO;
    }
    if (Math.abs(exponent) > MOST_DIGITS + (long) digits.length()) {
      return null;
    }
    return new BigDecimal(new BigInteger(isNegative ? "-" + digits : digits), (int) -exponent);
  }

  boolean hasFraction() {
    if (exponent >= 0) {
      return false;
    }
    BigDecimal value = value();
    return value == null || value.stripTrailingZeros().scale() > 0;
  }

  int compareTo(BigDecimal other) {
    BigDecimal value = value();
    if (value != null) {
      return value.compareTo(other);
    }
    int sign = isNegative ? -1 : 1;
    return exponent > 0 || other.signum() == 0 ? sign : -other.signum(); // huge, or as good as nothing
  }

  /** As Python writes it: an int, or a Decimal. */
  void write(Text out) {
    String digits = digits();
    if (digits.isEmpty()) {
      digits = "0";
    }
    if (isNegative && !(isWhole && digits.equals("0"))) {
      out.add('-');
    }
    if (isWhole) {
      out.add(digits);
      return;
    }
    long left = exponent + digits.length();
    long dot = exponent <= 0 && left > -6 ? left : 1;
    if (dot <= 0) {
      out.add("0.");
      out.add("0".repeat((int) -dot));
      out.add(digits);
    } else if (dot >= digits.length()) {
      out.add(digits);
    } else {
      out.add(digits.substring(0, (int) dot));
      out.add('.');
      out.add(digits.substring((int) dot));
    }
    if (left != dot) {
      out.add('E');
      out.add(left > dot ? "+" : "");
      out.add(Long.toString(left - dot));
    }
  }

  /** The nearest double; infinite or 0 where the number is beyond. */
  double nearest() {
    long power = exponent + Math.max(digitsEnd - point - 1, 0);
    double found = Double.parseDouble(text(start, digitsEnd) + "E" + power);
    return isNegative ? -found : found;
  }

  private String text(int from, int to) {
    return new String(bytes, from, to - from, StandardCharsets.US_ASCII);
  }
}
