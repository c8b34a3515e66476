"""Whatever a file holds, it is loaded or refused with problems; it never crashes the loading."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tidemark.cli.schemas import schemas
from tidemark.domain.config.assembly import ContractFile, Sources, assemble
from tidemark.domain.config.layering import Document
from tidemark.domain.errors import ConfigurationError


def words(schema):
    """Every key and every enumerated value that stands in a schema."""
    found = set()
    if isinstance(schema, dict):
        found |= {*schema.get("properties", {})} | {
            word for word in schema.get("enum", ()) if isinstance(word, str)
        }
        for inner in schema.values():
            found |= words(inner)
    elif isinstance(schema, list):
        for inner in schema:
            found |= words(inner)
    return found


KNOWN = sorted(set().union(*(words(json.loads(text)) for text in schemas().values())))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-1, 5)
    | st.floats(0, 2)
    | st.sampled_from(
        [*KNOWN, "day(a)", "5s", "256MB", "team:x", "a.b", "^(?P<n>.*)$", "sc://s", "http://h", "* * * * *"]
    )
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=4),
    max_leaves=12,
)
FILES = st.dictionaries(st.sampled_from(KNOWN), TREES, max_size=5)


def document(name, tree):
    return Document(name, tree, {(): 1})


def outcome(sources):
    """(the configuration or None, its problems)."""
    try:
        return assemble(sources), ()
    except ConfigurationError as error:
        return None, error.problems


@given(FILES, FILES, FILES)
def test_any_tree_is_loaded_or_refused(platform, defaults, contract):
    below = (document("_defaults.yaml", defaults),)
    files = [ContractFile(document("a.yaml", {"topic": "a", **contract}), below)]
    topics = {"main": ["a", "b"]}
    configuration, problems = outcome(
        Sources(document("platform.yaml", platform), None, files, [below], topics)
    )
    assert all(problem.file and problem.line == 1 and problem.message for problem in problems)
    assert (configuration is None) == bool(problems)


@given(FILES)
def test_any_contract_alone_is_loaded_or_refused(contract):
    file = ContractFile(document("a.yaml", {"topic": "a", **contract}))
    configuration, problems = outcome(Sources(contracts=[file]))
    assert (configuration is None) == bool(problems)
    for loaded in configuration.contracts if configuration else ():
        assert configuration.origins[loaded.table]["topic"].line == 1
