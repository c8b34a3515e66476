"""A folder with a platform file and contracts, written line by line so that tests can name lines."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import ConfigurationError, Problem
from tidemark.engine.config.configuration import Configuration, load

PLATFORM = """\
kafka: {main: {bootstrap.servers: "broker:9092"}}
schema_registry: {main: {url: "http://registry:8081"}}
catalog: {type: rest, uri: "http://catalog"}
spark: {remote: "sc://spark:15002"}
"""


@dataclass
class Installation:
    root: Path
    platform_file: Path | None = None

    def platform(self, text: str) -> "Installation":
        self.platform_file = self.root / "platform.yaml"
        self.platform_file.write_text(dedent(text))
        return self

    def contract(self, text: str, name: str = "orders.yaml") -> "Installation":
        path = self.root / "contracts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return self

    def home(self, name: str, text: str) -> "Installation":
        path = self.root / "home" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return self

    def load(self, **environ: str) -> Configuration:
        return load(self.platform_file, self.root / "contracts", environ=environ, home=self.root / "home")

    def only(self, **environ: str) -> Contract:
        [contract] = self.load(**environ).contracts
        return contract

    def problems(self, **environ: str) -> list[Problem]:
        """Every problem, with files relative to the installation."""
        with pytest.raises(ConfigurationError) as caught:
            self.load(**environ)
        return [
            Problem(
                str(Path(each.file).relative_to(self.root)),
                each.line,
                each.key,
                each.message,
                each.suggestion,
            )
            for each in caught.value.problems
        ]

    def problem(self, **environ: str) -> Problem:
        found = self.problems(**environ)
        assert len(found) == 1, "\n".join(map(str, found))
        return found[0]


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    (tmp_path / "contracts").mkdir()
    return Installation(tmp_path)
