import errno
from pathlib import Path

import pytest

from tidemark.engine.whole_file import replace_whole


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """Given a disk that fills up while a file is written, then the file holds what it did, and nothing lies beside it."""
    file = tmp_path / "ports.json"
    replace_whole(file, "before")
    whole = Path.write_text

    def full(path, text, **how):
        whole(path, text[:3], **how)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        replace_whole(file, "after it")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
