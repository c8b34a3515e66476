"""What the folder of the embedded stack may be called, and whose it is."""

UNFIT = "#?%"
"""In an address of a file these end the path or stand for other characters, and its readers do not agree on which."""
PRIVATE = 0o700
"""The mode of a home that Tidemark makes: nobody else reads the tables in it. One that is there keeps its own."""
ANOTHER = "name another folder: TIDEMARK_HOME"


def home_fault(home: str) -> str | None:
    """Why the embedded stack cannot lie in `home`, an absolute path, or None."""
    found = [each for each in UNFIT if each in home]
    if not found:
        return None
    return f"has {' and '.join(found)} in its path: the catalog and the tables in it would lie elsewhere"
