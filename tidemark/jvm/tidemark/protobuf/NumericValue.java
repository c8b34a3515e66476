package tidemark.protobuf;

import tidemark.decode.Fault;

/** A number on the wire, whatever its column is. */
abstract class NumericValue extends Value {
  private static final Long ZERO = 0L;

  private final Kind kind;

  NumericValue(Kind kind) {
    super(kind.wireType);
    this.kind = kind;
  }

  final long number(Input in) {
    long number = kind.read(in);
    if (!kind.fits(number)) {
      throw Fault.OUT_OF_RANGE;
    }
    return number;
  }

  abstract Object object(long number);

  @Override
  Object read(Input in) {
    return object(number(in));
  }

  @Override
  final Object parsed(Input in, Object earlier, int depth) {
    return kind.read(in);
  }

  @Override
  final Object unset() {
    return ZERO;
  }

  @Override
  final void check(Object parsed) {
    if (!kind.fits((Long) parsed)) {
      throw Fault.OUT_OF_RANGE;
    }
  }

  @Override
  final Object object(Object parsed) {
    return object((long) (Long) parsed);
  }
}
