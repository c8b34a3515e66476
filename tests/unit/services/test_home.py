"""One folder of Tidemark for every command, whatever the environment says."""

import os

import pytest

from tidemark.engine.config.configuration import places
from tidemark.services.stack import default_home


@pytest.mark.parametrize("said", [None, "", "elsewhere"])
def test_the_stack_lies_where_the_commands_look_for_it(monkeypatch, tmp_path, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    if said is not None:
        monkeypatch.setenv("TIDEMARK_HOME", said)
    assert default_home() == places(os.environ).home.absolute()
    assert default_home() != tmp_path
