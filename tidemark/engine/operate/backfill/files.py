"""Parquet files as a source: all of their columns, all of them, or none."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from tidemark.domain.errors import Refused

_UNREADABLE = re.compile(
    r"\[(?:PARQUET_TYPE_|FAILED_READ_FILE|CANNOT_MERGE|CANNOT_READ_FILE)[A-Z_.]*\] (.+?)\s*(?:SQLSTATE:|JVM stack|\Z)",
    re.DOTALL,
)
"""Errors of Spark about types and files that it cannot read, and what it says of them."""


@dataclass(frozen=True, slots=True)
class Files:
    """The rows of the files at a path, how many files these are, and a digest of their names, sizes and times."""

    rows: DataFrame
    count: int
    digest: str


def open_files(spark: SparkSession, path: str) -> Files:
    """Every column that one of the files has; what another lacks is NULL there.

    Raises:
        Refused: there are no files; Spark cannot read them, or not together; or it would leave some out.
    """
    with readable(path):
        rows = spark.read.option("mergeSchema", "true").parquet(path)
        read = {_place(unquote(each)) for each in rows.inputFiles()}
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    there = listing.select("path", "length", "modificationTime").collect()
    if left := sorted({_place(each["path"]) for each in there} - read):
        raise Refused(
            f"of {len(there)} files at {path} Spark would leave out {len(left)}, like {left[0]}: it reads folders "
            "within where all files lie in folders of the form column=value",
            next_step="put all files into one folder, or into such ones, or load each folder by a backfill of its own",
        )
    told = "\n".join(sorted(f"{each['path']} {each['length']} {each['modificationTime']}" for each in there))
    return Files(rows, len(read), hashlib.sha256(told.encode()).hexdigest()[:16])


def _place(url: str) -> str:
    return url.partition(":")[2].lstrip("/")


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Say what Spark cannot read of the files at a path, whatever is read of them.

    Raises:
        Refused: it finds none, or cannot read them.
    """
    try:
        yield
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise Refused(
                f"Spark finds no Parquet files at {path}",
                next_step="mend --source parquet:PATH, as the Spark server sees it",
            ) from error
        if found := _UNREADABLE.search(str(error)):
            raise Refused(
                f"Spark cannot read the Parquet files at {path}: {' '.join(found[1].split())}",
                next_step="write these files anew with types that Spark reads and that are the same in all of them, "
                "like microseconds for nanoseconds; what is loaded already is first dropped by --abort",
            ) from error
        raise
