"""Dagster's own state in SQLite, through connections that stay open.

Dagster's classes open the database anew for every question and every event, and compare its tables with all of their
migrations for every instance, of which each sensor's tick makes one: more than half of what an event costs, and most of
what a daemon or a sensor costs that has nothing to do. What is stored, and where, stays theirs.

Nor does a commit wait for the disk here. A process that dies loses nothing by that; a machine that loses its power may
lose the last events. What a table holds, and who did what to it, is not kept here but in the tables.

Two more things follow from connections that stay open: what is new stands in the write-ahead log for long, so whoever
watches a run watches that too; and processes that start at once on an empty folder make its tables one by one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self
from weakref import WeakSet

from dagster import EventLogEntry
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
    SqliteEventLogStorageWatchdog,
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from watchdog.events import FileSystemEvent
from watchdog.observers import Observer

from tidemark.engine.alone import alone

FILES = 16
"""Databases that are kept open: three for all runs, and one for each run that is written or looked at."""


class LocalStorage(DagsterSqliteStorage):
    """The `storage` of dagster.yaml: with DAGSTER_HOME as `base_dir` the files are those that Dagster makes itself."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self.base_dir = base_dir
        self._run_storage = _Runs.from_local(_runs_directory(base_dir))
        self._event_log_storage = _Events(_event_logs_directory(base_dir))
        self._schedule_storage = _Schedules.from_local(_schedule_directory(base_dir))
        self._inst_data = inst_data
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """As Dagster makes it from dagster.yaml."""
        return cls.from_local(inst_data=inst_data, **config_value)


class _OneFile:
    """What runs and schedules have in common: the file `name`, whose tables Dagster makes or compares."""

    name: ClassVar[str]
    _conn_string: str

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        """Dagster is asked once in a process, and again when someone has deleted the file."""
        url = create_db_conn_string(base_dir, cls.name)
        if url not in _READY or not Path(base_dir, f"{cls.name}.db").exists():
            with _alone(base_dir):
                super().from_local(base_dir, inst_data)  # type: ignore[misc]
            _READY.add(url)
        return cls(url, inst_data)  # type: ignore[call-arg]

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string).begin() as connection:
            yield connection


class _Runs(_OneFile, SqliteRunStorage):
    name = "runs"


class _Schedules(_OneFile, SqliteScheduleStorage):
    name = "schedules"


class _Events(SqliteEventLogStorage):
    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            url = self.conn_string_for_shard(shard)
            engine = _engine(url)
            if url not in _READY:
                with _alone(self._base_dir):
                    self._initdb(engine)
                _READY.add(url)
            with engine.begin() as connection:
                yield connection

    def watch(self, run_id: str, cursor: str | None, callback: Callable[[EventLogEntry, str], None]) -> None:
        """Call back with each new event of a run: what the page of a run in the UI shows while one looks at it."""
        observer: Any = self._obs
        if observer is None:
            self._obs = observer = Observer()  # type: ignore[assignment]
            observer.start()
        watched = _Watched(self, run_id, cursor, callback)
        where = observer.schedule(watched, self._base_dir, recursive=True)
        self._watchers[run_id][callback] = (watched, where)

    def has_table(self, table_name: str) -> bool:
        """Asked at every check that is stored."""
        with _engine(self.conn_string_for_shard(INDEX_SHARD_NAME)).connect() as connection:
            return bool(connection.dialect.has_table(connection, table_name))

    def wipe(self) -> None:
        """Remove all events; the files of runs that are gone must not be written any more."""
        _READY.clear()
        super().wipe()
        _engine.cache_clear()

    def dispose(self) -> None:
        """Close all files: whoever is the last to close one folds its write-ahead log into it."""
        super().dispose()
        with _MADE:
            engines = list(_ENGINES)
        for engine in engines:
            engine.dispose()


class _Watched(SqliteEventLogStorageWatchdog):
    """Dagster's, which looks when the file is written, here also when its write-ahead log is."""

    def __init__(
        self,
        storage: _Events,
        run_id: str,
        cursor: str | None,
        callback: Callable[[EventLogEntry, str], None],
    ) -> None:
        super().__init__(storage, run_id, callback, cursor)
        self._patterns = [self._log_path, f"{self._log_path}-wal"]

    def on_modified(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - it is one of the two
        self._process_log()


def _alone(folder: str) -> AbstractContextManager[None]:
    """One process at a time makes or compares tables in a folder: Dagster looks first, then makes what is missing."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return alone(Path(folder, "tables.lock"))


_READY: set[str] = set()
"""Databases whose tables this process has seen to be up to date."""
_ENGINES: WeakSet[Engine] = WeakSet()
_MADE = Lock()
"""Held while that set is changed or read: a code server evaluates sensors in threads, each with its own instance."""


@lru_cache(FILES)
def _engine(url: str) -> Engine:
    """Of one file; connections are made as threads need them, and kept for the next."""
    engine = create_engine(
        url,
        poolclass=QueuePool,
        max_overflow=-1,
        connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS},
    )
    event.listen(engine, "connect", _never_wait)
    with _MADE:
        _ENGINES.add(engine)
    return engine


def _never_wait(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
