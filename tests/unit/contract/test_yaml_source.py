"""YAML becomes plain values, without YAML 1.1's surprises, and every key keeps its line."""

import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidemark.engine.config.yaml_source import read_document

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.-", min_size=1), inner, max_size=3)
    ),
    max_leaves=10,
)


def read(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    document, problems = read_document(path)
    assert problems == []
    return document


@given(tree=st.dictionaries(st.text("abc.-", min_size=1), VALUES, max_size=3))
def test_what_was_written_is_read_back(tmp_path_factory, tree):
    assert read(tmp_path_factory.mktemp("yaml"), yaml.safe_dump(tree, allow_unicode=True)).tree == tree


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NO", "NO"), ("on", "on"), ("yes", "yes"), ("true", True), ("False", False),
        ("1:30", "1:30"), ("0x10", "0x10"), ("010", "010"), ("1_000", 1000), ("-3", -3),
        ("12_", 12), ("1__0", 10), ("1_.5", 1.5), ("1__0.5", 10.5), ("1_", 1),
        ("0.05", 0.05), ("1e3", "1e3"), ("1.5e+3", 1500.0), (".inf", ".inf"),
        ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("~", None), ("null", None), ("", None), ("'5'", "5"),
    ],
)  # fmt: skip
def test_plain_words_mean_what_they_look_like(tmp_path, written, value):
    assert read(tmp_path, f"a: {written}").tree == {"a": value}


def test_keys_are_text_as_written(tmp_path):
    assert read(tmp_path, "{on: 1, 0: 2, 2026-01-01: 3}").tree == {"on": 1, "0": 2, "2026-01-01": 3}


def test_every_key_and_item_knows_its_line(tmp_path):
    document = read(tmp_path, "# a comment\na:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n")
    assert document.lines == {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 4,
        ("a", "c", 0): 5,
        ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
    }
    assert document.line(("a", "c", 1, "nothing", "here")) == 6


def test_aliases_are_followed(tmp_path):
    assert read(tmp_path, "a: &x [1, 2]\nb: *x").tree == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "9" * 5000, "is no number that means anything here (5000 characters)"),
        ("a: 1.0e+400", "is no number that means anything here"),
        ("a: " + "[" * 3000 + "]" * 3000, "is nested too deep to be read"),
    ],
    ids=["many digits", "beyond a float", "deep"],
)
def test_what_python_cannot_hold_is_a_problem_of_the_file(tmp_path, text, message):
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    [problem] = read_document(path)[1]
    assert message in problem.message


@pytest.mark.parametrize("text", ["- " * 40_000, "a: " + "[" * 40_000])
def test_a_file_that_libyaml_cannot_hold_does_not_end_the_process(tmp_path, text):
    """Given tens of thousands of lists within each other, when the file is read, then that is a problem of the file."""
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    words = "from pathlib import Path; from tidemark.engine.config.yaml_source import read_document\n"
    words += "print(read_document(Path('a.yaml'))[1][0].message)"
    ended = subprocess.run([sys.executable, "-c", words], cwd=tmp_path, capture_output=True, check=True)
    assert b"nested too deep" in ended.stdout
