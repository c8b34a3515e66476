"""The nearest layer wins, and every value knows where it came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.config.layering import Document, Layer, leaves, merge
from tidemark.domain.errors import ConfigurationError

KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.recursive(
    st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=6,
)
LAYERS = st.lists(st.dictionaries(KEYS, TREES, max_size=3), min_size=1, max_size=4)


def layered(trees):
    return [Layer("defaults", Document(f"{place}.yaml", tree, {(): 1})) for place, tree in enumerate(trees)]


@given(LAYERS)
def test_the_nearest_layer_that_says_anything_about_a_value_wins(trees):
    merged = merge(layered(trees))
    for path, value in leaves(trees[-1]).items():
        if path and value != {}:
            assert leaves(merged.tree)[path] == value
            assert merged.origin(path).file == f"{len(trees) - 1}.yaml"


@given(LAYERS)
def test_every_value_is_what_its_origin_says(trees):
    merged = merge(layered(trees))
    for path, value in leaves(merged.tree).items():
        if path:
            place = int(str(merged.origin(path).file).removesuffix(".yaml"))
            assert leaves(trees[place])[path] == value


@given(LAYERS)
def test_a_layer_on_top_changes_only_what_it_says(trees):
    below, above = merge(layered(trees)).tree, merge(layered([*trees, {"z": 1}])).tree
    assert {**below, "z": 1} == above


@given(LAYERS)
def test_merging_leaves_the_layers_as_they_were(trees):
    layers = layered(trees)
    before = repr(trees)
    merge(layers)
    assert repr(trees) == before


def test_four_layers_with_their_origins(installation):
    installation.platform("""\
        defaults:
          lane: default
          description: from the platform
          target_lag: 1h
          tags: {a: platform, b: platform, c: platform}
    """)
    installation.contract("target_lag: 2h\ntags: {b: outer, c: outer}", "_defaults.yaml")
    installation.contract("tags: {c: inner}\nsort_by: [inner]", "shop/_defaults.yaml")
    installation.contract("topic: orders\nsort_by: [own]", "shop/orders.yaml")
    configuration = installation.load()
    [contract] = configuration.contracts
    assert contract.tags == {"a": "platform", "b": "outer", "c": "inner"}
    assert contract.sort_by == ("own",)
    origins = configuration.origins["lake.orders"]
    said = {key: str(origins[key]).replace(f"{installation.root}/", "") for key in origins}
    assert said["description"] == "platform.yaml:3"
    assert said["target_lag"] == "contracts/_defaults.yaml:1"
    assert said["tags.a"] == "platform.yaml:5"
    assert said["tags.b"] == "contracts/_defaults.yaml:2"
    assert said["tags.c"] == "contracts/shop/_defaults.yaml:1"
    assert said["sort_by"] == "contracts/shop/orders.yaml:2"
    assert said["topic"] == "contracts/shop/orders.yaml:1"
    assert said["format_version"] == said["table"] == "built-in"
    assert [origins[key].layer for key in ("description", "tags.c", "topic", "table")] == [
        "platform",
        "defaults",
        "contract",
        "built-in",
    ]


def test_a_folder_has_one_file_of_defaults(installation):
    installation.contract("target_lag: 2h", "_defaults.yaml")
    installation.contract("target_lag: 3h", "_defaults.yml")
    installation.contract("topic: orders", "orders.yaml")
    with pytest.raises(ConfigurationError, match=r"_defaults.yml: stands beside _defaults.yaml"):
        installation.load()


def test_defaults_of_one_folder_do_not_reach_another(installation):
    installation.contract("target_lag: 2h", "a/_defaults.yaml")
    installation.contract("topic: one", "a/one.yaml").contract("topic: two", "b/two.yaml")
    lags = {contract.topic: contract.target_lag.total_seconds() for contract in installation.load().contracts}
    assert lags == {"one": 7200, "two": 60}


def test_a_start_is_one_value_and_not_merged_with_another(installation):
    installation.contract("ingest: {start: {consumer_group: old}}", "_defaults.yaml")
    contract = installation.contract("topic: orders\ningest: {start: {offsets: {0: 1}}}").only()
    assert contract.ingest.start.offsets == {0: 1}


def test_what_a_contract_of_the_outermost_folder_inherits_is_told(installation):
    installation.platform(
        """\
        defaults:
          cluster: eu
          value: {schema: by_latest_schema}
        """
    )
    installation.contract("value: {format: avro}", "_defaults.yaml")
    installation.contract("cluster: us", "shop/_defaults.yaml")
    inherited = installation.load().defaults
    assert inherited == {"cluster": "eu", "value": {"schema": "by_latest_schema", "format": "avro"}}


def test_an_empty_value_takes_a_default_back(installation):
    installation.contract("event_time: at", "_defaults.yaml")
    assert installation.contract("topic: orders\nevent_time:").only().event_time is None


def test_the_short_form_of_upsert_says_the_keys_and_leaves_the_rest_to_its_defaults(installation):
    installation.contract("upsert:\n  keys: [outer]\n  deletes: soft\n  on_truncate: apply", "_defaults.yaml")
    installation.contract("topic: a\nupsert: [own]", "a.yaml")
    installation.contract("upsert: [short]", "b/_defaults.yaml")
    installation.contract("topic: b\nupsert:\n  order_by: [at]", "b/b.yaml")
    configuration = installation.load()
    said = {contract.topic: contract.upsert for contract in configuration.contracts}
    assert (said["a"].keys, said["a"].deletes, said["a"].on_truncate) == (("own",), "soft", "apply")
    assert (said["b"].keys, said["b"].deletes, said["b"].order_by) == (("short",), "soft", ("at",))
    origins = configuration.origins["lake.a"]
    assert str(origins["upsert.keys"]).endswith("a.yaml:2")
    assert str(origins["upsert.deletes"]).endswith("_defaults.yaml:3")


def test_a_fault_in_the_short_form_of_upsert_has_its_own_line(installation):
    installation.contract("topic: a\nupsert:\n  - fine\n  - fine")
    found = installation.problem()
    assert (found.line, found.key) == (4, "upsert.keys.1")
