"""The login name, where no `--by` was given."""

import getpass

from tidemark.domain.errors import Refused


def login_name() -> str:
    """The login name of this process.

    Raises:
        Refused: its user has none, as in a container that runs under an arbitrary uid.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise Refused(
            "the operations log names who asked, and this user has no login name",
            next_step="say --by NAME, or set TIDEMARK_USER (in the launchpad: by)",
        ) from None
