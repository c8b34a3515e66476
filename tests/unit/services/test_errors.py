"""A service that failed is told with its own words."""

from tidemark.services.errors import ServiceFailed


def test_the_cause_is_told_and_not_the_stack_below_it(tmp_path):
    """Given a log that ends with a cause and a long stack of Java, when the failure is told, then the cause is there and the stack is not."""
    log = tmp_path / "spark.log"
    stack = "\n".join(f"\tat org.example.Some{n}.call(Some.java:{n})" for n in range(30))
    log.write_text(f"ERROR: does not start\njava.net.BindException: in use\n{stack}\n\t... 12 more\n")
    told = str(ServiceFailed("spark", "ended while starting", log))
    assert told.splitlines()[1:3] == ["  ERROR: does not start", "  java.net.BindException: in use"]
    assert "Some29" not in told
