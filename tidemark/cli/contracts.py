"""The configuration of a command that works on tables: patterns meet the topics that there are now."""

import os

from tidemark.cli.output import console
from tidemark.domain.config.configuration import Configuration
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment, places
from tidemark.engine.look.topics import refresh_topics


def load_contracts() -> Configuration:
    """The configuration of this process, with the tables of `topics:` contracts as Kafka has their topics.

    Of a cluster that does not answer it has what was seen last. Topics that a pattern leaves out are told on stderr.

    Raises:
        ConfigurationError: lists every problem.
        Outage, Stopped: as `refresh_topics`.
    """
    found = load_from_environment()
    if refresh_topics(Lake(found), places(os.environ).home):
        found = load_from_environment()
    for each in found.left_out:
        console(as_json=True).print(str(each), style="yellow", soft_wrap=True)
    return found
