"""What is printed for people is what was said."""

import pytest
from rich.table import Table

from tidemark.cli.output import console


def test_what_looks_like_markup_or_an_emoji_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Given docs and keys of other people's, when they are printed, alone or in a table, then no letter is lost."""
    said = ["see [/wiki/orders]", "Status [open, closed]", "user:id:42", "[red]x"]
    cells = Table(*said)
    cells.add_row(*said)
    for each in (*said, cells):
        console().print(each)
    shown = capsys.readouterr().out
    assert [shown.count(each) for each in said] == [3, 3, 3, 3]
