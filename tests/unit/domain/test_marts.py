"""Which marts a folder of contracts gets: those whose sources it has, and no other."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidemark.engine.marts
from assets.marts.build import _dbt
from tidemark.domain.config.contract import Contract, Upsert
from tidemark.domain.errors import Refused
from tidemark.domain.lineage.marts import Mart, Project, downstream, in_turns
from tidemark.engine.marts import digest_of, project_fault, project_folder, read_project

PROJECT = read_project()
SAMPLE = [Contract(topic=topic, table=table) for table, topic in PROJECT.sources.items()]


def names(contracts):
    return {each.table for each in PROJECT.marts_for(contracts)}


def test_the_sample_contracts_have_all_marts():
    assert names(SAMPLE) == {each.table for each in PROJECT.marts}


def test_contracts_without_the_sample_tables_have_none():
    assert names([Contract(topic="mine", table="lake.mine")]) == set()


def test_a_table_of_the_same_name_that_is_fed_by_another_topic_is_not_the_sample_table():
    assert names([Contract(topic="bestellungen", table="shop.orders")]) == set()


@pytest.mark.parametrize("name", ["marts.daily_revenue", "marts.Daily_Revenue"])
def test_a_contracts_own_table_keeps_its_name(name):
    """Catalogs and stores that tell no capitals apart would take the mart for the table."""
    own = Contract(topic="mine", table=name)
    assert "marts.daily_revenue" not in names([*SAMPLE, own])
    assert "marts.customers" in names([*SAMPLE, own])


@given(st.lists(st.sampled_from(SAMPLE), unique_by=lambda each: each.table))
def test_everything_that_a_mart_reads_is_there(contracts):
    chosen = PROJECT.marts_for(contracts)
    there = {each.table for each in contracts} | {each.table for each in chosen}
    assert all(set(mart.upstream) <= there for mart in chosen)


def test_every_mart_and_column_is_documented_and_has_an_owner():
    for mart in PROJECT.marts:
        assert mart.description
        assert mart.owners
        assert all(column.description for column in mart.columns)
        assert mart.checks


def test_the_committed_description_is_that_of_the_project_as_it_is():
    assert PROJECT.digest == digest_of(project_folder()), (
        "python -m tidemark.cli.marts writes assets.json anew"
    )


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("snapshots/prices.sql", True),
        ("seeds/countries.csv", True),
        ("dbt_packages/utils/macros/pivot.sql", True),
        ("models/target/kept.sql", True),
        ("target/manifest.json", False),
        ("logs/dbt.log", False),
        ("assets.json", False),
        (".DS_Store", False),
        ("models/.DS_Store", False),
        ("models/.idea/workspace.xml", False),
    ],
)
def test_every_file_that_dbt_reads_makes_another_project(tmp_path, file, counts):
    """Given a file of any kind, when it is added or changed, then dbt's manifest is made anew; not for what dbt writes itself."""
    digests = [digest_of(tmp_path)]
    for text in ("a", "b"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
        digests.append(digest_of(tmp_path))
    assert len(set(digests)) == (3 if counts else 1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the project in its place."""
    folder = tmp_path / "dbt_project"
    shutil.copytree(project_folder(), folder)
    monkeypatch.setattr(tidemark.engine.marts, "project_folder", lambda: folder)
    return folder


def gone(folder):
    (folder / "models/marts/visitors.sql").unlink()


def added(folder):
    (folder / "models/marts/mails.sql").write_text("select email from {{ source('shop', 'orders') }}")


def torn(folder):
    (folder / "assets.json").write_text("<<<<<<< ours\n")


@pytest.mark.parametrize("change", [gone, added, torn])
def test_a_project_that_was_changed_builds_no_mart_until_it_is_described_anew(project, change):
    """Given a model that was taken out or added, or a description that cannot be read, then a build is refused before it asks a service, and says what helps."""
    assert project_fault() is None
    change(project)
    fault = project_fault()
    assert (fault.file, fault.key) == (str(project / "assets.json"), "digest")
    with pytest.raises(Refused, match=r"does not describe the project") as refused, _dbt(None, None, None):
        pass
    assert refused.value.next_step.startswith("python -m tidemark.cli.marts")


def test_a_mart_may_stand_on_an_upsert_table_and_is_affected_by_its_contract():
    mart = Mart(table="marts.now", model="now", unique_id="model.now", upstream=("shop.now",))
    further = Mart(table="marts.further", model="further", unique_id="model.further", upstream=("marts.now",))
    project = Project(digest="", sources={"shop.now": "orders"}, marts=(mart, further))
    plain = Contract(topic="orders", table="shop.orders")
    upserted = plain.model_copy(update={"upsert": Upsert(table="shop.now", keys=("id",))})
    assert project.marts_for([plain]) == []
    assert project.marts_for([upserted]) == [further, mart]
    assert downstream(upserted, [mart, further]) == ["marts.further", "marts.now"]
    assert downstream(plain, [mart, further]) == []


def test_marts_that_are_built_alone_have_their_turn_between_those_beneath_and_those_above():
    """Given marts of which some cannot be built with the others, then each comes after those beneath it, through one that is not built too."""
    upstream = {"a": ("shop.orders",), "b": ("a",), "v": ("b",), "c": ("v", "a"), "d": ("c",), "e": ()}
    marts = {name: Mart(table=name, model=name, unique_id=name, upstream=up) for name, up in upstream.items()}
    chosen = [marts[name] for name in "dcbae"]

    def turns(alone):
        return [sorted(each.table for each in turn) for turn in in_turns(chosen, alone, marts)]

    assert turns({"b", "d"}) == [["a", "e"], ["b"], ["c"], ["d"]]
    assert turns({"a"}) == [["e"], ["a"], ["b", "c", "d"]]
    assert turns(set()) == [["a", "b", "c", "d", "e"]]
