"""One folder of Tidemark for every command, whatever the environment says."""

import os

import pytest

from tidemark.domain.errors import Refused
from tidemark.engine.config.configuration import places
from tidemark.services.stack import Stack, default_home


@pytest.mark.parametrize("said", [None, "", "elsewhere"])
def test_the_stack_lies_where_the_commands_look_for_it(monkeypatch, tmp_path, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    if said is not None:
        monkeypatch.setenv("TIDEMARK_HOME", said)
    assert default_home() == places(os.environ).home.absolute()
    assert default_home() != tmp_path


@pytest.mark.parametrize("sign", "#?%")
def test_a_home_that_an_address_of_a_file_cannot_hold_is_refused_before_anything_is_made(tmp_path, sign):
    """Given a path with # ? or %, in which PyIceberg and SQLite would write elsewhere, then up makes nothing."""
    home = tmp_path / f"a{sign}b" / "home"
    with pytest.raises(Refused, match="in its path") as told:
        Stack(home).up()
    assert told.value.next_step == "name another folder: TIDEMARK_HOME"
    assert not home.parent.exists()


def test_a_home_that_cannot_be_read_is_not_told_to_be_stopped(tmp_path):
    """Given a stack.json that cannot be read, then status says so; one that is damaged says nothing."""
    (tmp_path / "stack.json").mkdir()
    with pytest.raises(Refused, match="cannot be read: Is a directory") as told:
        Stack(tmp_path).status()
    assert "TIDEMARK_HOME" in told.value.next_step
    (tmp_path / "stack.json").rmdir()
    for damaged in ("{", "[]"):
        (tmp_path / "stack.json").write_text(damaged)
        assert set(Stack(tmp_path).status()["services"].values()) == {"stopped"}
