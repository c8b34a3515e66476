package tidemark.json;

import tidemark.decode.Fault;

/** Reads times of RFC 3339, with their zone or without, into microseconds; never finer than they are. */
final class TimeReader extends NumberReader {
  private static final int CLOCK = 19; // 2026-01-31T23:59:59
  private static final int MICROS = 6;
  private static final int OFFSET = 6; // +01:00
  private static final long SECOND = 1_000_000;
  private static final long MINUTE = 60 * SECOND;
  private static final long HOUR = 60 * MINUTE;
  private static final long DAY = 24 * HOUR;

  private final boolean isZoned;

  TimeReader(boolean isZoned) {
    this.isZoned = isZoned;
  }

  @Override
  boolean read(Input in) {
    if (!isText(in)) {
      return false;
    }
    Fault fault = time(in);
    if (fault != null) {
      in.fail(fault);
    }
    return fault == null;
  }

  /** Null when `bits` has it. */
  private Fault time(Input in) {
    int end = in.length();
    if (end < CLOCK || !DateReader.isDate(in) || !isClock(in)) {
      return Fault.TYPE_MISMATCH;
    }
    int at = CLOCK;
    long micros = 0;
    boolean isFiner = false;
    if (at < end && in.character(at) == '.') {
      int first = ++at;
      for (; at < end && DateReader.isDigit(in.character(at)); at++) {
        if (at - first < MICROS) {
          micros = micros * 10 + (in.character(at) - '0');
        } else {
          isFiner |= in.character(at) != '0';
        }
      }
      if (at == first) {
        return Fault.TYPE_MISMATCH;
      }
      for (int digits = at - first; digits < MICROS; digits++) {
        micros *= 10;
      }
    }
    int zone = at;
    boolean hasZone = zone < end;
    if (hasZone != isZoned || hasZone && !isZone(in, zone)) {
      return Fault.TYPE_MISMATCH;
    }
    return isFiner || !sum(in, micros, zone) ? Fault.OUT_OF_RANGE : null;
  }

  private static boolean isClock(Input in) {
    byte between = in.character(10);
    return (between == 'T' || between == 't' || between == ' ')
        && DateReader.areDigits(in, 11, 2)
        && in.character(13) == ':'
        && DateReader.areDigits(in, 14, 2)
        && in.character(16) == ':'
        && DateReader.areDigits(in, 17, 2);
  }

  private static boolean isZone(Input in, int at) {
    byte sign = in.character(at);
    if (sign == 'Z' || sign == 'z') {
      return in.length() == at + 1;
    }
    return (sign == '+' || sign == '-')
        && in.length() == at + OFFSET
        && DateReader.areDigits(in, at + 1, 2)
        && in.character(at + 3) == ':'
        && DateReader.areDigits(in, at + 4, 2);
  }

  /** False where it is no time of the years 1 to 9999. */
  private boolean sum(Input in, long micros, int zone) {
    int hours = DateReader.digits(in, 11, 2);
    int minutes = DateReader.digits(in, 14, 2);
    int seconds = DateReader.digits(in, 17, 2);
    if (!DateReader.exists(in) || hours > 23 || minutes > 59 || seconds > 59) {
      return false;
    }
    bits = DateReader.day(in) * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND + micros;
    if (isZoned && in.length() == zone + OFFSET) {
      int ahead = DateReader.digits(in, zone + 1, 2);
      int more = DateReader.digits(in, zone + 4, 2);
      if (ahead > 23 || more > 59) {
        return false;
      }
      long offset = ahead * HOUR + more * MINUTE;
      bits += in.character(zone) == '-' ? offset : -offset;
    }
    return bits >= DateReader.FIRST * DAY && bits < (DateReader.LAST + 1) * DAY;
  }

  @Override
  Object boxed() {
    return bits;
  }
}
