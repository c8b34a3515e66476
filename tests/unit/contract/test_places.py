"""Rules: what stands in the way of reading a configuration is said; what it does not need is not looked at."""

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from resources.lake import configuration_of
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.configuration import Places, load_from_environment
from tidemark.engine.config.follow import Followed

from .conftest import PLATFORM, Installation
from .test_follow import open_to_all, somebody  # noqa: F401 - a fixture


@pytest.fixture
def here(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation that is the working folder, with nothing said in the environment."""
    for name in ("TIDEMARK_CONFIG", "TIDEMARK_CONTRACTS", "TIDEMARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(installation.root)
    return installation


def refused() -> list[tuple[str, str, str | None]]:
    with pytest.raises(ConfigurationError) as told:
        load_from_environment()
    return [(each.file, each.message, each.suggestion) for each in told.value.problems]


@pytest.mark.parametrize("sign", "#?%")
def test_a_home_that_an_address_of_a_file_cannot_hold_is_a_problem_of_the_embedded_stack_alone(
    here: Installation, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    """Given a home below a folder with # ? or %, then check refuses it, but not where other services are used."""
    home = here.root / f"a{sign}b" / "home"
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    [(file, message, _)] = refused()
    assert file == str(home)
    assert f"has {sign} in its path" in message
    assert "TIDEMARK_HOME" in message
    here.platform(PLATFORM)
    assert load_from_environment().platform.embedded is False


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_stack_file_is_a_problem_of_those_who_use_it(installation: Installation, text: str) -> None:
    """Given a stack.json that was cut off, then who uses the embedded stack is told how it is made anew, nobody else."""
    problem = installation.home("stack.json", text).problem()
    assert (problem.file, "services up writes it anew" in problem.message) == ("home/stack.json", True)
    installation.platform("default_namespace: raw")
    assert "writes it anew" in installation.problem().message
    assert installation.platform(PLATFORM).load().contracts == ()


def test_a_stack_file_that_this_user_cannot_read_is_no_damaged_one(
    open_to_all: Installation,  # noqa: F811
) -> None:
    """Given a home of another user, then it is said that it cannot be read and how another is named; where other services are used, nothing is said."""
    open_to_all.home("stack.json", json.dumps({})).root.joinpath("home").chmod(0o000)
    with somebody():
        problem = open_to_all.problem()
    open_to_all.platform(PLATFORM)
    where = Places(open_to_all.platform_file, open_to_all.root / "contracts", open_to_all.root / "home")
    with somebody():
        assert configuration_of(where).platform.embedded is False
    open_to_all.root.joinpath("home").chmod(0o755)
    assert problem.file == "home/stack.json"
    assert problem.message.startswith("cannot be read: Permission denied")
    assert "TIDEMARK_HOME" in problem.message


def test_a_platform_file_of_another_ending_is_not_passed_over(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a platform.yml alone, then check says under which name it is read, unless the environment names it."""
    (here.root / "platform.yml").write_text(PLATFORM)
    assert refused() == [("platform.yml", "is not read under this name", "platform.yaml")]
    monkeypatch.setenv("TIDEMARK_CONFIG", "platform.yml")
    assert load_from_environment().platform.embedded is False


def test_a_platform_file_that_links_to_nothing_is_not_passed_over(here: Installation) -> None:
    """Given a link whose target is gone, then it is a problem, and not the embedded stack."""
    (here.root / "platform.yaml").symlink_to("gone.yaml")
    assert refused() == [("platform.yaml", "cannot be read: No such file or directory", None)]


def test_folders_that_link_to_each_other_are_read_in_the_end(installation: Installation) -> None:
    """Given twenty folders that each link to all others, then check tells each link once, and who follows them ends."""
    folder = installation.platform(PLATFORM).root / "contracts"
    names = [f"f{number:02}" for number in range(20)]
    for name in names:
        (folder / name).mkdir()
        for other in names:
            (folder / name / f"to_{other}").symlink_to(folder / other)
    installation.contract("topic: orders\n")
    told = installation.problems()
    assert sum("more than 100 times" in each.message for each in told) == 1
    back = [each for each in told if each.message.startswith("leads back")]
    links = {((installation.root / each.file).parent.resolve(), Path(each.file).name) for each in back}
    assert 0 < len(back) == len(links) <= 20 * 20
    followed = Followed(Places(installation.platform_file, folder, installation.root / "home"))
    with pytest.raises(ConfigurationError, match="leads back"):
        followed.now()


def test_a_folder_that_links_lead_to_on_many_ways_is_not_read_on_all_of_them(
    installation: Installation,
) -> None:
    """Given folders of which each has two links to the next, then reading ends, though none leads back."""
    folder = installation.root / "contracts"
    for number in range(40):
        (folder / f"f{number:02}").mkdir()
    for number in range(39):
        for link in "ab":
            (folder / f"f{number:02}" / link).symlink_to(folder / f"f{number + 1:02}")
    assert "more than 100 times" in installation.problem().message


def test_a_folder_may_be_shared_by_two(installation: Installation) -> None:
    """Given a folder of contracts that two others link to with defaults of their own, then each has its tables."""
    installation.platform(PLATFORM.replace("kafka: {main", "kafka: {eu: {bootstrap.servers: eu}, main"))
    folder = installation.root / "contracts"
    installation.contract("topic: orders\nvalue: {format: json}\n", "../shared/orders.yaml")
    for name in ("eu", "main"):
        installation.contract(f"cluster: {name}\ntable: {name}.orders\n", f"{name}/_defaults.yaml")
        (folder / name / "shared").symlink_to(installation.root / "shared")
    followed = Followed(Places(installation.platform_file, folder, installation.root / "home"))
    assert [each.table for each in followed.now().contracts] == ["eu.orders", "main.orders"]
    installation.contract("topic: clicks\nvalue: {format: json}\n", "../shared/orders.yaml")
    assert {each.topic for each in followed.now().contracts} == {"clicks"}


@pytest.mark.parametrize("name", ["orders.yaml", "_defaults.yaml"])
def test_a_pipe_among_the_contracts_is_refused_and_not_waited_for(
    installation: Installation, name: str
) -> None:
    """Given a pipe or a device with the name of a contract, when it is checked, then it is a problem like any other."""
    installation.platform(PLATFORM)
    pipe = installation.root / "contracts" / name
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_text("lane: default"))  # whoever reads the pipe waits for this
    writer.start()
    found = installation.problem()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer.join()
    os.close(reader)
    assert (found.file, found.message) == (f"contracts/{name}", "is not a regular file")
    pipe.unlink()
    pipe.symlink_to("/dev/null")
    assert installation.problem() == found
