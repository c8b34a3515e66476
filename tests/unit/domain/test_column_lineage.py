"""Tags travel with the data: what a tagged column is made into is tagged, and only named tables may carry it."""

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.config.contract import Contract, Upsert
from tidemark.domain.lineage.column_lineage import (
    Exposure,
    exposures,
    inverse,
    lineage_of,
    made_of_it,
    origins,
    tags_of,
    topic_fields,
    way_up,
    with_topics,
)

ORDERS = Contract(
    topic="orders",
    table="shop.orders",
    columns={"email": {"tags": ["pii"], "allow": ["marts.customers"]}, "amount": {"description": "in euro"}},
)
LINEAGE = {
    "shop.orders_current": {"email": [("shop.orders", "email")]},
    "marts.customers": {"contact": [("shop.orders_current", "email")], "orders": [("shop.orders", "id")]},
    "marts.mailing": {"to": [("marts.customers", "contact")], "sum": [("shop.orders", "amount")]},
}


def test_a_tag_follows_a_column_through_every_table_that_is_made_of_it():
    assert tags_of(LINEAGE, [ORDERS], "marts.mailing", "to") == ("pii",)
    assert tags_of(LINEAGE, [ORDERS], "marts.mailing", "sum") == ()
    assert tags_of(LINEAGE, [ORDERS], "shop.orders", "email") == ("pii",)


def test_what_is_made_of_a_struct_has_the_tags_of_its_parts():
    """A table is allowed where everyone that tags a part allows it."""
    parts = {
        "cust.email": {"tags": ["pii"], "allow": ["marts.a", "marts.b"]},
        "`cust`.card": {"tags": ["pci"], "allow": ["marts.b"]},
        "cust": {"description": "who"},
        "x y": {"description": "no path"},
    }
    orders = Contract(topic="orders", table="shop.orders", columns=parts)
    lineage = {name: {"who": [("shop.orders", "cust")]} for name in ("marts.a", "marts.b")}
    assert tags_of(lineage, [orders], "shop.orders", "cust") == ("pci", "pii")
    assert [each.origin for each in exposures(lineage, [orders], "marts.a")] == [("shop.orders", "cust")]
    assert exposures(lineage, [orders], "marts.b") == []


def test_a_dot_may_be_within_the_name_of_the_tagged_column():
    """Given `user.email` of JSON, when a mart is made of it, then the note is that column's; in backticks it is no other's."""
    for spelled, others in (("User.Email", ("pii",)), ("`user.email`", ())):
        orders = Contract(topic="orders", table="shop.orders", columns={spelled: {"tags": ["pii"]}})
        lineage = {"marts.a": {"to": [("shop.orders", "user.email")], "who": [("shop.orders", "user")]}}
        assert tags_of(lineage, [orders], "marts.a", "to") == ("pii",)
        assert tags_of(lineage, [orders], "marts.a", "who") == others
        assert Exposure("marts.a", "to", ("pii",), ("shop.orders", "user.email")) in exposures(
            lineage, [orders], "marts.a"
        )


def test_a_table_that_the_contract_names_may_carry_the_column():
    assert exposures(LINEAGE, [ORDERS], "marts.customers") == []


def test_leave_for_one_table_is_no_leave_for_what_is_made_of_it():
    (found,) = exposures(LINEAGE, [ORDERS], "marts.mailing")
    assert found == Exposure("marts.mailing", "to", ("pii",), ("shop.orders", "email"))
    assert str(found) == "marts.mailing.to carries pii of shop.orders.email"


def test_the_kafka_key_carries_the_tags_of_the_columns_that_it_is_made_of():
    """Given a key that stands for a tagged column, then `_kafka`, which has it, is tagged wherever it goes; the mark of a delete, which repeats no value, is not."""
    people = Contract(
        topic="people",
        table="shop.people",
        key={"format": "string", "fields": ["email"]},
        columns={"email": {"tags": ["pii"], "allow": ["marts.post"]}, "n": {"tags": ["internal"]}},
        upsert={"table": "shop.people_current", "keys": ["email"], "deletes": "soft"},
    )
    made = [{"name": "who", "from": [["shop.people_current", "_kafka"]]}]
    gone = [{"name": "gone", "from": [["shop.people_current", "_is_deleted"]]}]
    lineage = lineage_of({"marts.m": made, "marts.post": made, "marts.gone": gone}, [people])
    assert tags_of(lineage, [people], "marts.m", "who") == ("pii",)
    assert [each.origin for each in exposures(lineage, [people], "marts.m")] == [("shop.people", "_kafka")]
    assert exposures(lineage, [people], "marts.post") == []
    assert exposures(lineage, [people], "marts.gone") == []
    plain = people.model_copy(update={"key": ORDERS.key})
    assert tags_of(lineage_of({"marts.m": made}, [plain]), [plain], "marts.m", "who") == ()


def test_kafka_metadata_is_no_field_of_the_record():
    assert dict(topic_fields(ORDERS, ["id", "_id", "_kafka", "_cdc", "_extra"])) == {"id": "id", "_id": "_id"}
    lines = Contract(topic="log", table="a.log", value={"format": "string"})
    assert dict(topic_fields(lines, ["line", "_kafka"])) == {"line": "value"}


NAMES = st.sampled_from("abcd")
GRAPHS = st.dictionaries(
    NAMES, st.dictionaries(NAMES, st.lists(st.tuples(NAMES, NAMES), max_size=3), max_size=4), max_size=4
)


@given(GRAPHS, NAMES, NAMES)
def test_origins_are_closed_and_found_even_in_circles(lineage, table, column):
    found = origins(lineage, table, column)
    assert (table, column) in found
    assert {up for t, c in found for up in lineage.get(t, {}).get(c, ())} <= found


def test_tags_cross_an_upsert_table_that_says_nothing_itself():
    """Given an append table with a tagged column and its upsert table, then a mart on the latter is held to the tag."""
    kept = ORDERS.model_copy(update={"upsert": Upsert(table="shop.now", keys=("id",), deletes="soft")})
    columns = {
        "shop.now": [{"name": "email"}, {"name": "_is_deleted"}],
        "marts.mailing": [{"name": "to", "from": [["shop.now", "email"]]}],
    }
    lineage = lineage_of(columns, [kept])
    assert lineage["shop.now"]["_is_deleted"] == [("shop.orders", "_kafka")]
    assert tags_of(lineage, [kept], "shop.now", "email") == ("pii",)
    (found,) = exposures(lineage, [kept], "marts.mailing")
    assert found.origin == ("shop.orders", "email")
    unseen = {table: listed for table, listed in columns.items() if table != "shop.now"}
    assert exposures(lineage_of(unseen, [kept]), [kept], "marts.mailing") == [found], (
        "nobody has looked at it yet"
    )


def test_the_way_of_a_column_leads_from_the_mart_to_the_field_of_the_topic():
    """Given topic, append table, upsert table and mart, then each step of the way is told once, and the way down is the same one."""
    whole = with_topics(LINEAGE, [ORDERS], {"shop.orders": ["id", "email", "_kafka"]})
    assert way_up(whole, "marts.mailing", "to") == [
        [("marts.customers", "contact")],
        [("shop.orders_current", "email")],
        [("shop.orders", "email")],
        [("topic orders", "email")],
    ]
    assert way_up(whole, "shop.orders", "_kafka") == []
    assert way_up({"a.t": {"x": [("b.t", "y")]}, "b.t": {"y": [("a.t", "x")]}}, "a.t", "x") == [
        [("b.t", "y")]
    ]
    assert made_of_it(inverse(LINEAGE), "shop.orders", "email") == [
        ("marts.customers", "contact"),
        ("marts.mailing", "to"),
        ("shop.orders_current", "email"),
    ]


@given(GRAPHS, NAMES, NAMES)
def test_what_is_made_of_a_column_is_what_has_it_among_its_origins(lineage, table, column):
    everywhere = [(other, name) for other, columns in lineage.items() for name in columns if other != table]
    expected = sorted(each for each in everywhere if (table, column) in origins(lineage, *each))
    assert made_of_it(inverse(lineage), table, column) == expected


@given(GRAPHS, NAMES, NAMES)
def test_a_way_names_every_origin_once(lineage, table, column):
    named = [each for step in way_up(lineage, table, column) for each in step]
    assert len(named) == len(set(named))
    assert {(table, column), *named} == origins(lineage, table, column)


def test_tags_hold_for_columns_with_capitals_which_dbt_tells_of_in_lower_case():
    """Given customerEmail, when a mart is made of `customeremail`, over the upsert table and another mart, then the tag and the way up are those of customerEmail; also where nobody has looked at the tables yet, and where the contract spells it otherwise."""
    contract = Contract(
        topic="orders",
        table="shop.orders",
        columns={"customerEmail": {"tags": ["pii"]}},
        upsert={"table": "shop.now", "keys": ["id"]},
    )
    listed = [{"name": "id"}, {"name": "customerEmail"}]
    marts = {
        "marts.direct": [{"name": "email", "from": [["shop.orders", "customeremail"]]}],
        "marts.now": [{"name": "lastEmail", "from": [["shop.now", "customeremail"]]}],
        "marts.both": [{"name": "to", "from": [["marts.now", "lastemail"]]}],
    }
    otherwise = contract.model_copy(
        update={"columns": {name.lower(): note for name, note in contract.columns.items()}}
    )
    origin = ("shop.orders", "customerEmail")
    append, upsert = {"shop.orders": listed}, {"shop.now": listed}
    for seen, noted in (
        (append | upsert, contract),
        (append, contract),
        ({}, contract),
        (append, otherwise),
        (append | upsert, otherwise),
    ):
        lineage = lineage_of(marts | seen, [noted])
        for mart, column in (("marts.direct", "email"), ("marts.now", "lastEmail"), ("marts.both", "to")):
            assert exposures(lineage, [noted], mart) == [Exposure(mart, column, ("pii",), origin)]
            assert tags_of(lineage, [noted], mart, column) == ("pii",)
        assert way_up(lineage, "marts.both", "to") == [
            [("marts.now", "lastEmail")],
            [("shop.now", "customerEmail")],
            [origin],
        ]
