package tidemark.protobuf;

import tidemark.decode.Fault;
import tidemark.decode.Record;

/** A google.protobuf.Timestamp of the years 1 to 9999: in microseconds, or in nanoseconds that 64 bits hold. */
final class TimeValue extends MessageValue {
  private static final int SECONDS = 1 << 3;
  private static final int NANOS = 2 << 3;
  private static final long FIRST_SECOND = -62_135_596_800L;
  private static final long LAST_SECOND = 253_402_300_799L;
  private static final long BILLION = 1_000_000_000L;

  private final boolean isNanos;

  TimeValue(Shape shape, boolean isNanos) {
    super(shape);
    this.isNanos = isNanos;
  }

  private long time(long seconds, long nanos) {
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND || nanos < 0 || nanos >= BILLION) {
      throw Fault.OUT_OF_RANGE;
    }
    if (!isNanos) {
      return seconds * 1_000_000 + nanos / 1000;
    }
    try {
      return seconds < 0
          ? Math.addExact(Math.multiplyExact(seconds + 1, BILLION), nanos - BILLION)
          : Math.addExact(Math.multiplyExact(seconds, BILLION), nanos);
    } catch (ArithmeticException beyond) {
      throw Fault.OUT_OF_RANGE;
    }
  }

  private long time(Input in) {
    int outer = in.open();
    long seconds = 0;
    long nanos = 0;
    while (in.hasMore()) {
      int tag = in.tag();
      if (tag == SECONDS) {
        seconds = in.varint();
      } else if (tag == NANOS) {
        nanos = in.varint();
      } else {
        throw Fault.INVALID;
      }
    }
    in.close(outer);
    return time(seconds, nanos);
  }

  private long time(Object parsed) {
    Object[] parts = ((Tree) parsed).parts;
    return time(parts[0] == null ? 0 : (Long) parts[0], parts[1] == null ? 0 : (Long) parts[1]);
  }

  @Override
  Object read(Input in) {
    return time(in);
  }

  @Override
  void read(Input in, Record row, int ordinal) {
    row.number(ordinal, time(in));
  }

  @Override
  void check(Object parsed) {
    if (((Tree) parsed).hasUnknown) {
      throw Fault.INVALID;
    }
    time(parsed);
  }

  @Override
  Object object(Object parsed) {
    return time(parsed);
  }

  @Override
  void store(Object parsed, Record row, int ordinal) {
    row.number(ordinal, time(parsed));
  }
}
