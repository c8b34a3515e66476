"""Where errors leave the program: as words with a next step, or as {"error": …} under --json; never as a traceback.

Exit codes: 0 fine, 1 a finding (also: a service does not answer), 2 bad use or configuration, 130 interrupted.
"""

import errno
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from tidemark.domain.errors import Interrupted, Outage, Overtaken, Refused, Stopped, TidemarkError
from tidemark.domain.states import OUTAGES
from tidemark.services.errors import DownloadFailed, ServiceFailed
from tidemark.services.manifest import cache_dir
from tidemark.services.ports import without_proxy

FINDING = 1
BAD_USE = 2
INTERRUPTED = 130
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
"""A folder that is another user's, is mounted to be read alone, or is a file: of the machine, not a fault of ours."""
_FOUND = (Stopped, Outage, Overtaken, ServiceFailed, DownloadFailed)
_UsageError: Any = typer.BadParameter.__base__
_interrupted = Event()
"""Set by the first signal; a command that waits for it, as `metrics`, then ends with 0."""


class Commands(TyperGroup):
    """The commands, with the one place where errors end. `--debug` and `--json` hold wherever they stand."""

    _asked: Sequence[str] = ()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the signature is click's
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        without_proxy(os.environ)
        end_as_by_ctrl_c(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a terminal that is closed, too
        words = list(sys.argv[1:] if args is None else args)
        if "--debug" in words:
            words.remove("--debug")
            os.environ["TIDEMARK_DEBUG"] = "1"
        as_json = "--json" in words
        words = _json_last(words)
        sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a dash that a terminal cannot show is no error
        try:
            self._asked = words
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except BrokenPipeError:
            code = _reader_left()
        except _UsageError as error:
            code = _bad_use(error, as_json=as_json)
        except Exception as error:  # noqa: BLE001 - this is the border
            code = _reported(error, as_json=as_json)
        if standalone_mode:
            _end(code or 0, own=args is None)
        return code

    def invoke(self, ctx: Any) -> Any:
        """The command itself. Who reads JSON reads of an interrupt too."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if "--json" not in self._asked:
                raise
            command = next(word for word in self._asked if not word.startswith("-"))
            raise Interrupted(command, shlex.join(["tidemark", *self._asked])) from None


def end_as_by_ctrl_c(*numbers: signal.Signals) -> None:
    """These signals end a command as Ctrl-C does; what nohup has ignored stays ignored."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """By what takes Ctrl-C at this moment: while a run is at work that is Dagster's, by which it is canceled."""
    _interrupted.set()
    by_ctrl_c = signal.getsignal(signal.SIGINT)
    if callable(by_ctrl_c) and by_ctrl_c is not _as_interrupt:
        by_ctrl_c(number, frame)
    else:
        raise KeyboardInterrupt


def _end(code: int, *, own: bool) -> NoReturn:
    """An interrupted process of its `own` ends at once: Python itself would wait for threads that still look."""
    if own and (code == INTERRUPTED or _interrupted.is_set()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def debugging() -> bool:
    """Whether tracebacks and Dagster's own log are wanted."""
    return bool(os.environ.get("TIDEMARK_DEBUG"))


def report(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong and what to do now; gives the exit code."""
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename and (error.errno in _CLOSED or _unmade(error)):
        error = Refused(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            next_step="let this user read and write there, or name another folder: TIDEMARK_HOME, TIDEMARK_CACHE, "
            "TIDEMARK_CONTRACTS, DAGSTER_HOME, --out",
        )
    if not isinstance(error, TidemarkError) and (full := _full(error)):
        error = Refused(
            f"this machine takes no more: {full}",
            next_step="make room for TIDEMARK_HOME, DAGSTER_HOME, the user's cache folder and the output, and repeat",
        )
    if not isinstance(error, TidemarkError):
        error = TidemarkError(
            f"{type(error).__name__}: {error}",
            next_step="the same command with --debug shows where; please report it",
            state="failed",
        )
        _say(error, as_json=as_json)
        return FINDING
    _say(error, as_json=as_json)
    if isinstance(error, Interrupted):
        return INTERRUPTED
    found = isinstance(error, _FOUND) or error.fields.get("state") in {
        *OUTAGES,
        "failed",
    }
    return FINDING if found else BAD_USE


def _full(error: BaseException) -> str | None:
    """What says that there is no more room: the system, or SQLite below Dagster and the embedded catalog."""
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"{where}{error.strerror}"
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "sqlite_errorname", None) == "SQLITE_FULL":
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return None


def _unmade(error: OSError) -> bool:
    """Whether the home or the cache is missing where no folder can be made, as in /proc or below a mount on demand."""
    if error.errno != errno.ENOENT:
        return False
    from tidemark.services.stack import default_home  # noqa: PLC0415 - httpx only when something is missing

    with suppress(OSError):  # of a working directory that is gone
        missing = Path(os.fsdecode(error.filename)).absolute()
        return any(each.is_relative_to(missing) for each in (default_home(), cache_dir()))
    return False


def _say(error: TidemarkError, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": error.as_json()}, default=str))
        return
    from tidemark.cli.output import show_error  # noqa: PLC0415 - rich only when there is something to show

    show_error(error.message, error.next_step, error.fields.get("safe", ""))


def _reported(error: Exception, *, as_json: bool) -> int:
    try:
        code = report(error, as_json=as_json)
        sys.stdout.flush()
    except OSError as unwritten:
        with suppress(OSError):  # of a terminal that is closed
            sys.stderr.write(f"the output cannot be written: {unwritten}\n")
        return _reader_left()
    return code


def _bad_use(error: Any, *, as_json: bool) -> int:
    if as_json:
        command = error.ctx.command_path if error.ctx else "tidemark"
        fields: Mapping[str, Any] = {
            "kind": type(error).__name__,
            "message": error.format_message(),
            "next_step": f"{command} --help",
        }
        typer.echo(json.dumps({"error": fields}))
        return BAD_USE
    from typer.rich_utils import rich_format_error  # noqa: PLC0415

    rich_format_error(error)
    return BAD_USE


def _json_last(words: list[str]) -> list[str]:
    """`tidemark --json services status` as the command wants it: `tidemark services status --json`."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--json"]
    return words if len(rest) == end else [*rest, "--json", *words[end:]]


def _nowhere() -> TextIO:
    """In place of a stream that was closed before the command began (`>&-`): Python has None there."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _reader_left() -> int:
    """`tidemark status | head`: nobody reads on, which is no error of ours; stdout must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FINDING
