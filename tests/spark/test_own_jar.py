"""Tidemark's classes are compiled from what is in the package, once."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tidemark.services import own_jar as module
from tidemark.services.download import fetch
from tidemark.services.errors import ServiceFailed
from tidemark.services.java import find_java
from tidemark.services.manifest import classpath
from tidemark.services.own_jar import own_jar, pyspark_home

PAGES = """package tidemark.parquet;

import com.github.luben.zstd.Zstd;
import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.util.Arrays;
import java.util.Collection;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;

final class Pages {
  public static void main(String[] args) throws Exception {
    ZstdPages pages = new ZstdPages(null, 3);
    byte[] page = "tide".repeat(1000).getBytes();
    try {
      pages.compress(BytesInput.from(new ByteArrayInputStream(page), page.length + 1));
    } catch (EOFException expected) {
      var idle = ZstdPages.class.getDeclaredField("IDLE");
      idle.setAccessible(true);
      System.out.print(((Collection<?>) idle.get(null)).size());
    }
    byte[] pressed = pages.compress(BytesInput.from(page)).toByteArray();
    System.out.print(Arrays.equals(page, Zstd.decompress(pressed, page.length)));
  }
}
"""


def test_the_jar_has_the_classes_that_the_server_is_told_of() -> None:
    """Asked for again it is the same one, whose time of making is a part of the class archive's name."""
    fetch(("spark", "compiler"))
    jar = own_jar(find_java())
    made = jar.stat().st_mtime_ns
    with zipfile.ZipFile(jar) as packed:
        names = set(packed.namelist())
    assert {"tidemark/spark/TidemarkPlugin.class", "tidemark/spark/TidemarkExtensions.class"} <= names
    assert own_jar(find_java()) == jar
    assert jar.stat().st_mtime_ns == made


def test_a_class_that_does_not_compile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler's words and where to read them all; nothing is left that could pass for a jar."""
    (tmp_path / "Broken.java").write_text("class Broken { int nothing() { return missing; } }")
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    fetch(("spark", "compiler"))
    with pytest.raises(ServiceFailed, match="missing cannot be resolved") as failed:
        own_jar(find_java())
    log = Path(failed.value.fields["log"])
    assert log.exists()
    assert not log.with_suffix(".jar").exists()
    log.unlink()


def test_a_page_that_cannot_be_read_takes_no_native_memory_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a page that ends too early, then what was to compress it is there for the next one, and compresses that."""
    (tmp_path / "Pages.java").write_text(PAGES)
    shutil.copy(module.SOURCES / "tidemark" / "parquet" / "ZstdPages.java", tmp_path)
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    fetch(("spark", "compiler"))
    jar = own_jar(find_java())
    beside = [jar, *classpath("spark"), pyspark_home() / "jars" / "*"]
    command = [find_java(), "-cp", os.pathsep.join(map(str, beside)), "tidemark.parquet.Pages"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    jar.unlink()
    assert told.stdout == "1true"
