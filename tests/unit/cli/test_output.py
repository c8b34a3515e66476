"""What is printed for people is what was said."""

import json
import sys
from io import BytesIO, TextIOWrapper

import pytest
from rich.table import Table

from tidemark.cli.output import console, print_json


def test_what_looks_like_markup_or_an_emoji_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Given docs and keys of other people's, when they are printed, alone or in a table, then no letter is lost."""
    said = ["see [/wiki/orders]", "Status [open, closed]", "user:id:42", "[red]x"]
    cells = Table(*said)
    cells.add_row(*said)
    for each in (*said, cells):
        console().print(each)
    shown = capsys.readouterr().out
    assert [shown.count(each) for each in said] == [3, 3, 3, 3]


def test_half_a_surrogate_pair_is_the_same_for_who_reads_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a value with a lone surrogate, which JSON can hold and UTF-8 cannot, when it is printed as the command line does, then it is read as it was; other letters are not escaped."""
    stdout = TextIOWrapper(written := BytesIO(), encoding="utf-8", errors="replace")
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json(["é"])
    print_json(["é\ud800"])
    stdout.flush()
    fine, broken = written.getvalue().splitlines()
    assert (fine, json.loads(broken)) == ('["é"]'.encode(), ["é\ud800"])
