"""One folder of Tidemark for every command, whatever the environment says."""

import os
from functools import partial

import pytest

from orchestration.instance import prepare_dagster_home
from tidemark.cli.demo.hold import held
from tidemark.domain.errors import Refused
from tidemark.engine.alive import alive
from tidemark.engine.config.configuration import places
from tidemark.engine.config.discovery import update
from tidemark.services.progress import silent
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


def up(home):
    with Stack(home)._alone(silent):
        """As `up` begins."""


def in_a_run(home):
    with alive(home, "run"):
        """A run is at work."""


def demo(home):
    with held(home):
        """The demo is."""


@pytest.mark.parametrize(
    "make", [up, in_a_run, demo, prepare_dagster_home, partial(update, change=lambda seen: seen)]
)
def test_a_home_that_tidemark_makes_is_its_users_alone_and_one_that_is_there_stays(tmp_path, make):
    """Given a machine that others have accounts on, then nobody else reads the tables of an embedded stack."""
    make(tmp_path / "above" / "home")
    assert (tmp_path / "above" / "home").stat().st_mode & 0o777 == 0o700
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    make(there)
    assert there.stat().st_mode & 0o777 == 0o755
