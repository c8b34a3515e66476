"""A lakehouse per test: fresh contracts on the session's stack; and a way to come between."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lakehouse as made
import pytest


@pytest.fixture
def lakehouse(
    request: pytest.FixtureRequest, stack: dict[str, Any], tmp_path: Path
) -> Iterator[made.Lakehouse]:
    makes_code = request.node.get_closest_marker("makes_code") is not None
    yield from made.lakehouse(stack, tmp_path, makes_code=makes_code)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str, Callable[[], Any]], None]:
    """`meanwhile(module, name, act)`: the next call of that function finds `act` done just before it."""

    def once(module: ModuleType, name: str, act: Callable[[], Any]) -> None:
        found = getattr(module, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(module, name, found)
            act()
            return found(*args, **kwargs)

        monkeypatch.setattr(module, name, wrapped)

    return once
