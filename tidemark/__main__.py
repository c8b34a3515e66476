"""`python -m tidemark` is the command `tidemark`, wherever its script is not on the PATH."""

from tidemark.cli.main import app

if __name__ == "__main__":
    app()
