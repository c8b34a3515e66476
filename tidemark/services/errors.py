"""What can go wrong with the embedded stack; all of it is about this machine, never about data."""

from pathlib import Path

from tidemark.domain.errors import TidemarkError


class ServiceError(TidemarkError):
    """Base: a part of the embedded stack could not be fetched, started or stopped."""


class JavaMissing(ServiceError):
    """No Java that Spark 4.1 and Kafka 4.3 run on."""


class DownloadFailed(ServiceError):
    """An artifact could not be fetched, or its bytes are not the pinned ones."""


class ServiceFailed(ServiceError):
    """A process ended while starting, or did not answer in time. `log` holds its own words."""

    def __init__(self, service: str, reason: str, log: Path, again: str = "tidemark services up") -> None:
        super().__init__(
            f"{service} {reason}{_last_words(log)}",
            next_step=f"read {log}, then: {again}",
            service=service,
            log=str(log),
        )


def _last_words(log: Path) -> str:
    if not log.exists():
        return ""
    lines = log.read_text(errors="replace").splitlines()
    # a stack of Java is longer than its cause
    told = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
    return "".join(f"\n  {line[:300]}" for line in told[-8:])
