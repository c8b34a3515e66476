"""Rule: a comparison says that a tagged column differs, and shows none of its values."""

import json

from tidemark.engine.verify.differences import NOT_SHOWN, Difference, Differences


def test_values_of_hidden_columns_are_not_shown_where_rows_differ():
    """Given rows that differ in a tagged column, whose key is tagged too, when they are told, then without the values."""
    columns = {"email": ("alice@example.org", "bob@example.org"), "amount": (1, 2)}
    found = Differences(0, 0, 1, (Difference({"phone": "0123", "id": 7}, 1, 1, columns),))
    [told] = found.without({"email", "phone"}).as_json()["sample"]
    assert told["key"] == {"phone": NOT_SHOWN, "id": 7}
    assert told["columns"] == {"email": [NOT_SHOWN, NOT_SHOWN], "amount": [1, 2]}
    assert not any(each in json.dumps(told) for each in ("alice", "bob", "0123"))
    assert found.without(frozenset()) == found
