"""Parquet files as a source: all of their columns, all of them, or none."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType

from tidemark.domain.errors import Refused

_UNREADABLE = re.compile(
    r"\[(?:PARQUET_TYPE_|FAILED_READ_FILE|CANNOT_MERGE|CANNOT_READ_FILE|COLUMN_ALREADY_EXISTS|CONFLICTING_)[A-Z_.]*\] "
    r"(.+?)\s*(?:SQLSTATE:|JVM stack|\Z)",
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
    there = _listed(spark, path)
    if not there:
        raise Refused(
            f"Spark finds no Parquet files at {path}",
            next_step="mend --source parquet:PATH, as the Spark server sees it",
        )
    with readable(path):
        rows = spark.read.option("mergeSchema", "true").parquet(path)
        try:
            schema = rows.schema
        except Exception as error:
            if "UNABLE_TO_INFER_SCHEMA" not in str(error):
                raise
            raise _left_out(path, there, list(there)) from error
        read = {_place(unquote(row[0])) for row in rows.select("_metadata.file_path").distinct().collect()}
        unread = [each for each in there if _place(each) not in read]
        # a file without rows is read too, and has no row to show it
        if unread and not spark.read.parquet(*unread).isEmpty():
            raise _left_out(path, there, unread)
    nothing = [field.name for field in schema.fields if isinstance(field.dataType, NullType)]
    return Files(rows.drop(*nothing), len(there), _digest(there))


def digest_now(spark: SparkSession, path: str) -> str | None:
    """The digest of the files that are at a path now; None where there are none."""
    there = _listed(spark, path)
    return _digest(there) if there else None


def _listed(spark: SparkSession, path: str) -> Mapping[str, str]:
    """The path of each file, at any depth, with its size and time; without those that Spark hides."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = listing.load(path).select("path", "length", "modificationTime").collect()
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return {}
        raise
    return {each["path"]: f"{each['length']} {each['modificationTime']}" for each in sorted(found)}


def _digest(there: Mapping[str, str]) -> str:
    told = "\n".join(f"{path} {says}" for path, says in there.items())
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _place(url: str) -> str:
    return url.partition(":")[2].lstrip("/")


def _left_out(path: str, there: Mapping[str, str], unread: list[str]) -> Refused:
    return Refused(
        f"of {len(there)} files at {path} Spark would leave out {len(unread)}, like {unread[0]}: it reads folders "
        "within where all files lie in folders of the form column=value",
        next_step="put all files into one folder, or into such ones, or load each folder by a backfill of its own",
    )


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Say what Spark cannot read of the files at a path, whatever is read of them.

    Raises:
        Refused: it cannot read them.
    """
    try:
        yield
    except Exception as error:
        if found := _UNREADABLE.search(str(error)):
            raise Refused(
                f"Spark cannot read the Parquet files at {path}: {' '.join(found[1].split())}",
                next_step="mend these files or take them away: Spark must read all of them as one table, each column "
                "of one type (microseconds for nanoseconds); what is loaded already is first dropped by --abort",
            ) from error
        raise
