"""Rule: who follows the files sees each change of one, and reads nothing while there is none."""

import pytest

from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.configuration import Places
from tidemark.engine.config.follow import Followed

from .conftest import PLATFORM


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
    assert tables() == ["raw.orders"]
    installation.contract("topik: orders\n")
    with pytest.raises(ConfigurationError, match=r"orders\.yaml:1"):
        followed.now()
