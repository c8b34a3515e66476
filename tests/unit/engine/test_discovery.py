"""Rule: the discovery file is a cache; whatever is wrong with it, definitions still load."""

import errno
import fcntl
import threading

import pytest

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, Field, Struct
from tidemark.engine.config.discovery import FILE, Discovery, read, update


def test_what_was_seen_is_read_again(tmp_path):
    columns = Struct((Field("id", LONG, "the order", required=True), KAFKA_COLUMN))
    update(tmp_path, lambda d: d.with_topics("main", {"orders": {"partitions": 3, "id": "x"}}))
    update(tmp_path, lambda d: d.with_columns("shop.orders", columns))
    found = read(tmp_path)
    assert found.topics("main") == {"orders": {"partitions": 3, "id": "x"}}
    assert found.columns("shop.orders")[0] == {
        "name": "id",
        "type": "long",
        "doc": "the order",
        "required": True,
    }
    assert found.topics("other") == {}
    assert found.columns("other") == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 2}', '{"version": 1, "clusters": 3}', '{"version": 1, "tables": 7}'],
)
def test_a_damaged_or_foreign_file_is_empty_and_is_replaced(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read(tmp_path) == Discovery()
    assert update(tmp_path, lambda d: d.with_topics("main", {"t": {"partitions": 1}}))
    assert read(tmp_path).topics("main") == {"t": {"partitions": 1}}


def test_a_missing_home_is_made_and_an_unchanged_file_is_not_written(tmp_path):
    home = tmp_path / "deep" / "home"
    assert read(home) == Discovery()
    assert update(home, lambda d: d.with_topics("main", {"t": {"partitions": 1}}))
    assert not update(home, lambda d: d.with_topics("main", {"t": {"partitions": 1}}))


def test_it_is_parsed_once_until_it_is_written_again(tmp_path):
    update(tmp_path, lambda d: d.with_topics("main", {"t": {"partitions": 1}}))
    before = read(tmp_path)
    assert read(tmp_path) is before
    update(tmp_path, lambda d: d.with_topics("main", {"t": {"partitions": 2}}))
    assert read(tmp_path).topics("main") == {"t": {"partitions": 2}}
    (tmp_path / FILE).unlink()
    assert read(tmp_path) == Discovery()


def test_writers_do_not_undo_each_other(tmp_path):
    def write(n):
        update(tmp_path, lambda d: d.with_topics(f"c{n}", {"t": {"partitions": n}}))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read(tmp_path).clusters) == {f"c{n}" for n in range(8)}


def test_a_file_system_without_locks_does_not_keep_it_from_being_written(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    assert update(tmp_path, lambda d: d.with_topics("main", {"t": {"partitions": 1}}))
    assert read(tmp_path).topics("main") == {"t": {"partitions": 1}}


def test_columns_are_shown_when_the_definitions_that_are_loaded_have_them(tmp_path):
    """Given a table that got a column after the definitions were loaded, then it is not shown until they are loaded anew."""
    one = Struct((Field("id", LONG),))
    update(tmp_path, lambda d: d.with_columns("shop.orders", one))
    assert not read(tmp_path).shown("shop.orders")
    loaded = read(tmp_path).digests()
    update(tmp_path, lambda d: d.with_served(loaded))
    assert read(tmp_path).shown("shop.orders")
    update(tmp_path, lambda d: d.with_columns("shop.orders", Struct((*one.fields, Field("note", LONG)))))
    assert not read(tmp_path).shown("shop.orders")
    assert not read(tmp_path).shown("shop.other")
