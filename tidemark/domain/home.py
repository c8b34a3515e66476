"""What the folder of the embedded stack may be called."""

UNFIT = "#?%"
"""In an address of a file these end the path or stand for other characters, and its readers do not agree on which."""
ANOTHER = "name another folder: TIDEMARK_HOME"


def home_fault(home: str) -> str | None:
    """Why the embedded stack cannot lie in `home`, an absolute path, or None."""
    found = [each for each in UNFIT if each in home]
    if not found:
        return None
    return f"has {' and '.join(found)} in its path: the catalog and the tables in it would lie elsewhere"
