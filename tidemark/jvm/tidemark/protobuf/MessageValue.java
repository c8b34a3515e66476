package tidemark.protobuf;

import tidemark.decode.Fault;

/** A message, whatever its column is. */
abstract class MessageValue extends Value {
  final Shape shape;

  MessageValue(Shape shape) {
    super(Input.SIZED);
    this.shape = shape;
  }

  @Override
  final boolean isMessage() {
    return true;
  }

  @Override
  final Tree unset() {
    return shape.tree();
  }

  @Override
  final Object parsed(Input in, Object earlier, int depth) {
    if (depth == 0) {
      throw Fault.UNDECODABLE;
    }
    Tree tree = earlier == null ? unset() : (Tree) earlier;
    int outer = in.open();
    shape.parse(in, tree, depth - 1);
    in.close(outer);
    return tree;
  }

  @Override
  final boolean isComplete(Object parsed) {
    return shape.isComplete((Tree) parsed);
  }

  @Override
  void check(Object parsed) {
    shape.check((Tree) parsed);
  }
}
