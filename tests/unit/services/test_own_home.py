"""Rule: tests work in no home but their own."""

import pytest
from own_home import own_home


def test_a_new_or_an_empty_home_is_the_tests_from_then_on(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for home in (tmp_path / "not" / "there", empty):
        assert own_home(home) == home
        (home / "catalog.db").touch()
        assert own_home(home) == home


def test_a_home_that_holds_what_others_have_made_is_refused(tmp_path):
    (tmp_path / "catalog.db").touch()
    with pytest.raises(pytest.UsageError, match="a new or an empty folder"):
        own_home(tmp_path)
