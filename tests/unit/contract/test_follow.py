"""Rule: who follows the files sees each change of one, and reads nothing while there is none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.configuration import Places
from tidemark.engine.config.follow import Followed

from .conftest import PLATFORM, Installation

NOBODY = 65534


@contextmanager
def somebody() -> Iterator[None]:
    """Whom permissions hold for, root being above them."""
    before = os.geteuid()
    if before:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An installation whose folders everybody can read."""
    root = tmp_path_factory.mktemp("open")
    for each in (root, root.parent, root.parent.parent):
        each.chmod(0o755)
    (root / "contracts").mkdir(mode=0o755)
    return Installation(root)


@pytest.mark.parametrize("mode", [0o000, 0o600, 0o300], ids=["neither", "not entered", "not listed"])
@pytest.mark.parametrize("closed", ["contracts", "contracts/sub"])
def test_a_folder_that_cannot_be_read_is_a_problem_until_it_can(
    open_to_all: Installation, closed: str, mode: int
) -> None:
    """Given a folder of contracts that this user cannot list or enter, then its name is a problem, not an exception, and who follows the files sees when it is mended."""
    open_to_all.platform(PLATFORM).contract("topic: orders\n", "sub/orders.yaml")
    folder = open_to_all.root / "contracts"
    followed = Followed(Places(open_to_all.platform_file, folder, open_to_all.root / "home"))
    (open_to_all.root / closed).chmod(mode)
    with somebody():
        problem = open_to_all.problem(TIDEMARK_CONTRACTS=str(folder))
        with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
            followed.now()
    assert (problem.file, problem.message) == (closed, "cannot be read: Permission denied")
    (open_to_all.root / closed).chmod(0o755)
    with somebody():
        assert [each.table for each in followed.now().contracts] == ["lake.orders"]


def test_files_are_read_again_when_one_changes_and_only_then(installation):
    installation.platform(PLATFORM).contract("topic: orders\n").contract(
        "owners: {data: 'team:a'}\n", "_defaults.yaml"
    )
    folder = installation.root / "contracts"
    followed = Followed(Places(installation.platform_file, folder, installation.root / "home"))
    first = followed.now()
    assert followed.now() is first

    def tables():
        return [each.table for each in followed.now().contracts]

    installation.contract("topic: clicks\n", "web/clicks.yaml")
    assert tables() == ["lake.clicks", "lake.orders"]
    installation.contract("owners: {data: 'team:b'}\n", "_defaults.yaml")
    assert {each.owners.data for each in followed.now().contracts} == {"team:b"}
    installation.platform(PLATFORM + "default_namespace: raw\n")
    assert tables() == ["raw.clicks", "raw.orders"]
    (folder / "web" / "clicks.yaml").unlink()
    assert tables() == ["raw.orders"]
    installation.contract("topik: orders\n")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"orders\.yaml:1"):
            followed.now()
    installation.contract("topic: orders\n")
    (folder / "round").symlink_to(folder)
    with pytest.raises(ConfigurationError, match="leads back"):
        followed.now()
    (folder / "round").unlink()
    assert tables() == ["raw.orders"]
    for name in ("a", "z"):  # the order of a folder is nobody's promise
        (folder / f"{name}.yaml").symlink_to(folder / "nowhere")
    (folder / "itself").symlink_to(folder / "itself")
    assert tables() == ["raw.orders"]
    installation.contract("topik: orders\n")
    with pytest.raises(ConfigurationError, match=r"orders\.yaml:1"):
        followed.now()
