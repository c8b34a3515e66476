package tidemark.json;

import java.time.LocalDate;
import tidemark.decode.Fault;

/** Reads dates (2026-01-31) into days since 1970. */
final class DateReader extends NumberReader {
  static final long FIRST = LocalDate.of(1, 1, 1).toEpochDay();
  static final long LAST = LocalDate.of(9999, 12, 31).toEpochDay();
  private static final int LENGTH = 10;
  private static final int FEBRUARY = 2;
  private static final int[] DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

  @Override
  boolean read(Input in) {
    if (!isText(in)) {
      return false;
    }
    if (in.length() != LENGTH || !isDate(in) || !exists(in)) {
      in.fail(Fault.TYPE_MISMATCH);
      return false;
    }
    bits = day(in);
    return true;
  }

  @Override
  Object boxed() {
    return (int) bits;
  }

  /** Whether the last text begins as a date is written. */
  static boolean isDate(Input in) {
    return areDigits(in, 0, 4)
        && in.character(4) == '-'
        && areDigits(in, 5, 2)
        && in.character(7) == '-'
        && areDigits(in, 8, 2);
  }

  /** Whether the calendar has it. */
  static boolean exists(Input in) {
    int year = digits(in, 0, 4);
    int month = digits(in, 5, 2);
    int day = digits(in, 8, 2);
    if (year == 0 || month == 0 || month > DAYS.length || day == 0) {
      return false;
    }
    boolean isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= DAYS[month - 1] || isLeap && month == FEBRUARY && day == 29;
  }

  /** Days from 1970-01-01, in the Gregorian calendar before 1582 too. */
  static long day(Input in) {
    int month = digits(in, 5, 2);
    int year = digits(in, 0, 4) - (month <= FEBRUARY ? 1 : 0);
    int fromMarch = (month + 9) % 12;
    int inYear = (153 * fromMarch + 2) / 5 + digits(in, 8, 2) - 1;
    int leapDays = Math.floorDiv(year, 4) - Math.floorDiv(year, 100) + Math.floorDiv(year, 400);
    return 365L * year + leapDays + inYear - 719_468;
  }

  static boolean isDigit(byte found) {
    return found >= '0' && found <= '9';
  }

  static boolean areDigits(Input in, int from, int count) {
    for (int i = from; i < from + count; i++) {
      if (!isDigit(in.character(i))) {
        return false;
      }
    }
    return true;
  }

  static int digits(Input in, int from, int count) {
    int found = 0;
    for (int i = from; i < from + count; i++) {
      found = found * 10 + (in.character(i) - '0');
    }
    return found;
  }
}
