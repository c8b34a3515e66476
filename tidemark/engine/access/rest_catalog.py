"""A REST catalog that does not answer is given up: PyIceberg itself waits without limit.

A run that waits holds its pool and does not see that it should leave, and a sensor's tick is cut off by Dagster.
"""

from functools import partial

from pyiceberg.catalog.rest import RestCatalog
from requests import Session

TIMEOUT = (10.0, 30.0)
"""Seconds until it accepts, and between two pieces of its answer. A tick, which Dagster gives 60 s, survives one."""


class PatientRestCatalog(RestCatalog):
    """PyIceberg's own, whose every session has a time limit."""

    def _config_headers(self, session: Session) -> None:
        """What is done first to a session, before it asks for a token."""
        super()._config_headers(session)
        session.request = partial(session.request, timeout=TIMEOUT)  # type: ignore[method-assign]
