"""One contract for many topics: patterns meet the topics that were last seen."""

import json

import pytest

PATTERN = r"""
topics: '^shop\.(?P<name>.*)$'
table: shop.{name}
"""


@pytest.fixture
def seen(installation):
    def write(*topics, cluster="main", tables=None):
        content = {
            "version": 1,
            "clusters": {cluster: {"topics": {topic: {"partitions": 1} for topic in topics}}},
            "tables": {table: {"topic": [cluster, topic]} for table, topic in (tables or {}).items()},
        }
        return installation.home("discovery.json", json.dumps(content))

    return write


def test_a_pattern_becomes_one_contract_per_topic_that_was_seen(installation, seen):
    seen("shop.orders", "shop.refunds-v2", "web.clicks", "__shop.internal")
    configuration = installation.contract(PATTERN, "shop.yaml").load()
    assert [(each.topic, each.table) for each in configuration.contracts] == [
        ("shop.orders", "shop.orders"),
        ("shop.refunds-v2", "shop.refunds_v2"),
    ]
    assert configuration.contracts[0].value.subject == "shop.orders-value"
    assert str(configuration.origins["shop.orders"]["topic"]).endswith("shop.yaml:2")
    [pattern] = configuration.patterns
    assert (pattern.cluster, pattern.topics) == ("main", r"^shop\.(?P<name>.*)$")


def test_nothing_was_seen_yet_and_the_definitions_still_load(installation):
    configuration = installation.contract(PATTERN).load()
    assert configuration.contracts == ()
    assert len(configuration.patterns) == 1


def test_a_pattern_matches_whole_names(installation, seen):
    seen("orders", "orders-old")
    installation.contract("topics: orders")
    assert [each.topic for each in installation.load().contracts] == ["orders"]


def test_topics_of_another_cluster_are_not_meant(installation, seen):
    seen("shop.orders", cluster="other")
    assert installation.contract(PATTERN).load().contracts == ()


def test_a_contract_of_its_own_wins_over_a_pattern(installation, seen):
    seen("shop.orders", "shop.refunds")
    installation.contract(PATTERN, "all.yaml")
    installation.contract("topic: shop.orders\ntable: own.orders", "own.yaml")
    tables = {each.topic: each.table for each in installation.load().contracts}
    assert tables == {"shop.orders": "own.orders", "shop.refunds": "shop.refunds"}


def test_a_topic_whose_table_is_taken_is_left_out_and_the_others_go_on(installation, seen):
    seen("shop.a-b", "shop.a_b", "shop.A_b", "shop.fine")
    configuration = installation.contract(PATTERN, "all.yaml").load()
    assert [each.topic for each in configuration.contracts] == ["shop.A_b", "shop.fine"]
    assert [(each.topic, each.problem.key, each.problem.line) for each in configuration.left_out] == [
        ("shop.a-b", "table", 3),
        ("shop.a_b", "table", 3),
    ]
    assert "table shop.a_b (topic shop.a-b) differs only by case" in configuration.left_out[0].problem.message


@pytest.mark.parametrize(
    ("served", "newcomer"),
    [
        ("us.orders", "eu.orders"),
        ("eu.orders_v2", "eu.orders-v2"),
        ("eu.a", "eu.A"),
        ("eu.a_quarantine", "eu.a"),
    ],
)
def test_a_table_stays_with_the_topic_that_it_was_loaded_from(installation, seen, served, newcomer):
    """Given a topic that a pattern serves, when one comes whose table would be the same, then that one is left out."""
    table = f"shop.{served[3:]}"
    installation.contract(r"""
        topics: '^(?:eu|us)\.(?P<name>.*)$'
        table: shop.{name}
        """)
    seen(served, newcomer, tables={table: served})
    configuration = installation.load()
    assert [(each.topic, each.table) for each in configuration.contracts] == [(served, table)]
    assert f"(topic {newcomer})" in configuration.left_out[0].problem.message


def test_a_loaded_table_stays_when_its_topic_is_no_longer_listed(installation, seen):
    """Given tables that were loaded from topics which are gone, or hidden from us, then those that the pattern fills still have contracts, so that they stop by name."""
    seen("shop.new", tables={"shop.orders": "shop.orders", "old.refunds": "shop.refunds", "shop.x": "web.x"})
    configuration = installation.contract(PATTERN).load()
    assert [each.topic for each in configuration.contracts] == ["shop.new", "shop.orders"]
    assert configuration.left_out == ()


def test_a_table_whose_topic_is_gone_is_not_given_to_another_one(installation, seen):
    installation.contract("topics: '^[a-z]+[.](?P<name>.*)$'\ntable: shop.{name}")
    seen("eu.orders", tables={"shop.orders": "us.orders"})
    configuration = installation.load()
    assert [(each.topic, each.table) for each in configuration.contracts] == [("us.orders", "shop.orders")]
    assert "(topic eu.orders)" in configuration.left_out[0].problem.message


def test_a_contract_of_its_own_takes_the_table_whose_topic_is_gone(installation, seen):
    installation.contract(PATTERN, "all.yaml").contract("topic: web\ntable: shop.orders", "own.yaml")
    seen("web", tables={"shop.orders": "shop.orders"})
    assert [each.topic for each in installation.load().contracts] == ["web"]


def test_a_contract_of_its_own_takes_the_table_that_a_pattern_filled(installation, seen):
    installation.contract(PATTERN, "all.yaml").contract("topic: web\ntable: shop.orders", "own.yaml")
    seen("shop.orders", tables={"shop.orders": "shop.orders"})
    assert [each.topic for each in installation.load().contracts] == ["web"]


def test_a_topic_whose_table_would_be_another_in_dagster_is_left_out(installation, seen):
    seen("shop.a_b", "shop.fine")
    installation.contract("topic: x\ntable: shop.lake__a_b", "own.yaml")
    installation.contract(PATTERN.replace("shop.{name}", "shop__lake.{name}"), "all.yaml")
    configuration = installation.load()
    assert [each.table for each in configuration.contracts] == ["shop.lake__a_b", "shop__lake.fine"]
    assert "are both shop__lake__a_b in Dagster" in configuration.left_out[0].problem.message


def test_a_topic_that_cannot_name_a_table_is_left_out(installation, seen):
    seen("shop.", "shop.1st", "shop.fine")
    configuration = installation.contract(PATTERN).load()
    assert [each.table for each in configuration.contracts] == ["shop.fine", "shop.t_1st"]
    (left_out,) = configuration.left_out
    assert "topic shop.: 'shop.' is not a table name" in left_out.problem.message


def test_a_damaged_discovery_file_is_an_empty_one(installation):
    installation.home("discovery.json", "{")
    assert installation.contract(PATTERN).load().contracts == ()


def test_a_topic_whose_name_leaves_no_room_is_left_out_and_the_others_go_on(installation, seen):
    seen("n" * 236, "n" * 235, "orders")
    configuration = installation.contract("topics: '^.*$'").load()
    assert [each.topic for each in configuration.contracts] == ["n" * 235, "orders"]
    [left_out] = configuration.left_out
    problem = left_out.problem
    assert (problem.key, "has 236 characters" in problem.message) == ("table", True)


def test_a_pattern_has_no_upsert_table_of_one_name(installation):
    """Given a pattern whose topics would all be merged into one table, then it is refused: all but one would be left out."""
    installation.contract("topics: '^shop_.*$'\nupsert: {keys: [id], table: shop.now}")
    problem = installation.problem()
    assert (problem.line, problem.key) == (2, "upsert.table")
    assert problem.message == "one table for many topics: leave it out for <table>_current"


def test_two_patterns_on_one_topic_do_not_share_a_consumer_group(installation, seen):
    """Given a topic that two patterns take with one group, then the second is left out and the others go on."""
    seen("shop.a", "shop.b")
    for name, topics in (("one", "shop[.](?P<name>.*)"), ("two", "shop[.](?P<name>a)")):
        installation.contract(
            f"topics: '{topics}'\ntable: {name}.{{name}}\ningest: {{commit_to_group: lag}}", f"{name}.yaml"
        )
    configuration = installation.load()
    assert [each.table for each in configuration.contracts] == ["one.a", "one.b"]
    [left_out] = configuration.left_out
    problem = left_out.problem
    assert (problem.key, problem.suggestion) == ("ingest.commit_to_group", "lag-{table}")
