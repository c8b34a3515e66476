"""What is printed for people is what was said."""

import json
import re
import sys
from io import BytesIO, TextIOWrapper

import pytest
from rich.table import Table
from rich.text import Text

from tidemark.cli.output import console, print_json, show_error


def test_what_looks_like_markup_or_an_emoji_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Given docs and keys of other people's, when they are printed, alone or in a table, then no letter is lost."""
    said = ["see [/wiki/orders]", "Status [open, closed]", "user:id:42", "[red]x"]
    cells = Table(*said)
    cells.add_row(*said)
    for each in (*said, cells):
        console().print(each)
    shown = capsys.readouterr().out
    assert [shown.count(each) for each in said] == [3, 3, 3, 3]


def test_a_terminal_obeys_nothing_that_stands_in_what_others_have_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a record's key that would set the title of the terminal or clear it, when it is told, alone, in a table or as an error, then it is seen, and our own colors are there."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    said = "a\x1b]0;x\x9b2J\x00\x7fé\tb"
    cells = Table(said)
    cells.add_row(said)
    for each in (said, cells, Text(said, style="red")):
        console().print(each, style="bold")
    show_error(said, said, said)
    told = "".join(capsys.readouterr())
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told)
    assert plain != told
    assert plain.count(r"a\x1b]0;x\x9b2J\x00\x7fé") == 7
    assert plain.replace("\n", "").isprintable()


def test_half_a_surrogate_pair_is_the_same_for_who_reads_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a value with a lone surrogate, which JSON can hold and UTF-8 cannot, when it is printed as the command line does, then it is read as it was; other letters are not escaped."""
    stdout = TextIOWrapper(written := BytesIO(), encoding="utf-8", errors="replace")
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json(["é"])
    print_json(["é\ud800"])
    stdout.flush()
    fine, broken = written.getvalue().splitlines()
    assert (fine, json.loads(broken)) == ('["é"]'.encode(), ["é\ud800"])
