"""Fetch pinned artifacts once into the per-user cache; after that everything works offline.

A file appears under its final name only when its sha256 is the pinned one. A download that was cut off goes
on where it stopped; two processes that fetch at once take turns.
"""

import hashlib
import shutil
import tarfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import tenacity

from tidemark.domain.config.units import counted
from tidemark.services.errors import DownloadFailed
from tidemark.services.manifest import Artifact, ArtifactSet, artifacts, cache_dir, cached, maven_url
from tidemark.services.progress import Event, OnProgress, silent
from tidemark.services.turn import turn

CHUNK = 256 * 1024
PARALLEL = 6
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
ATTEMPTS, SHORTEST_WAIT = 5, 0.5


def fetch(names: Sequence[ArtifactSet], on_progress: OnProgress = silent) -> None:
    """Make sure that every artifact of these sets is in the cache and whole; raises DownloadFailed."""
    fetch_artifacts([each for name in names for each in artifacts(name)], on_progress)


def fetch_artifacts(wanted: Sequence[Artifact], on_progress: OnProgress = silent) -> None:
    """Make sure that these artifacts are in the cache and whole; raises DownloadFailed."""
    if not _absent(wanted):
        return
    cache_dir().mkdir(parents=True, exist_ok=True)
    waits = "another process fetches, waiting for it"
    with turn(cache_dir() / "fetch.lock", "download", waits, on_progress):
        absent = _absent(wanted)  # another process may have fetched them while we waited
        if absent:
            _Fetch(absent, on_progress).run()


def _absent(wanted: Sequence[Artifact]) -> list[Artifact]:
    """Those not in the cache, largest first so that the slowest begins first."""
    return sorted({each for each in wanted if not _present(each)}, key=lambda each: -each.size)


def unpacked(artifact: Artifact) -> Path:
    """The folder of a fetched tar.gz."""
    return cached(artifact).with_name(artifact.filename.removesuffix(".tar.gz"))


def _present(artifact: Artifact) -> bool:
    path = cached(artifact)
    if artifact.extension == "tar.gz":
        return unpacked(artifact).is_dir()
    return path.exists() and path.stat().st_size == artifact.size


def _client() -> httpx.Client:
    try:
        limits = httpx.Limits(max_connections=PARALLEL)
        return httpx.Client(follow_redirects=True, timeout=60, limits=limits)
    except (ImportError, ValueError) as error:  # a proxy that httpx cannot use, as one for SOCKS
        raise DownloadFailed(
            f"the proxy of this environment cannot be used: {error}",
            next_step="name one for http in HTTPS_PROXY and unset ALL_PROXY, or a mirror of Maven Central in "
            "TIDEMARK_MAVEN_URL",
        ) from error


class _Fetch:
    """One round of parallel downloads with a shared byte count."""

    def __init__(self, wanted: Sequence[Artifact], on_progress: OnProgress) -> None:
        self._wanted = wanted
        self._on_progress = on_progress
        self._total = sum(each.size for each in wanted)
        self._done = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def run(self) -> None:
        self._say()
        with (
            _client() as client,
            ThreadPoolExecutor(PARALLEL, thread_name_prefix="fetch") as pool,
        ):
            waiting = [pool.submit(self._one, client, each) for each in self._wanted]
            try:
                for future in as_completed(waiting):
                    future.result()
            except BaseException:
                self._cancelled.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self._say(finished=True)

    def _one(self, client: httpx.Client, artifact: Artifact) -> None:
        target = cached(artifact)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=SHORTEST_WAIT, max=10),
            retry=tenacity.retry_if_exception_type(
                (httpx.TransportError, httpx.HTTPStatusError, _WrongBytes)
            ),
            sleep=tenacity.sleep_using_event(self._cancelled),
            reraise=True,
        )
        try:
            retrying(self._attempt, client, artifact, part)
        except (httpx.HTTPError, _WrongBytes) as error:
            raise DownloadFailed(
                f"{artifact.filename} could not be fetched: {error}",
                next_step="check the network, or name a mirror of Maven Central in TIDEMARK_MAVEN_URL",
                url=f"{maven_url()}/{artifact.path}",
            ) from error
        if artifact.extension == "tar.gz":
            _unpack(part, unpacked(artifact))
        else:
            part.replace(target)

    def _attempt(self, client: httpx.Client, artifact: Artifact, part: Path) -> None:
        had = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={had}-"} if had else {}
        with client.stream("GET", f"{maven_url()}/{artifact.path}", headers=headers) as response:
            if response.status_code != RANGE_NOT_SATISFIABLE:
                response.raise_for_status()
                resumed = response.status_code == PARTIAL_CONTENT
                self._count(had if resumed else 0)
                self._write(response, part, "ab" if resumed else "wb")
        if _sha256(part) != artifact.sha256:
            self._count(-part.stat().st_size)
            part.unlink()
            raise _WrongBytes(artifact.sha256)

    def _write(self, response: httpx.Response, part: Path, mode: str) -> None:
        written = 0
        try:
            with part.open(mode) as out:
                for chunk in response.iter_bytes(CHUNK):
                    out.write(chunk)
                    written += len(chunk)
                    self._count(len(chunk))
                    if self._cancelled.is_set():
                        raise _Cancelled
        except httpx.TransportError:
            self._count(-written)  # the next attempt counts what is on disk
            raise

    def _count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._say()

    def _say(self, *, finished: bool = False) -> None:
        megabytes = f"{self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB, once"
        text = f"{counted(len(self._wanted), 'file')}, {megabytes}"
        self._on_progress(Event("download", text, self._done, self._total, finished=finished))


class _Cancelled(Exception):
    pass


class _WrongBytes(Exception):
    def __init__(self, expected: str) -> None:
        super().__init__(f"its bytes are not the pinned ones (sha256 {expected})")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(archive: Path, folder: Path) -> None:
    """Extract aside and rename, so that a half extracted folder is never taken for a whole one."""
    aside = folder.with_name(folder.name + ".unpacking")
    shutil.rmtree(aside, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(
            tarfile, "data_filter", None
        )  # Python before 3.11.4, as Debian's, has none
        tar.extractall(aside)  # noqa: S202 - its bytes are the pinned ones
    aside.rename(folder)
    archive.unlink()
