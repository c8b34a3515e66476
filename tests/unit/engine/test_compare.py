"""Rule: what `compare` is asked for and cannot do is refused, not passed over and not left to Spark."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Refused
from tidemark.engine.config.discovery import Discovery
from tidemark.engine.verify.compare import _hidden, _Opened, compare
from tidemark.engine.verify.comparison import Wanted

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = StructType(
    [StructField("id", LongType()), StructField("email", StringType()), StructField("at", TimestampType())]
)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every table has COLUMNS; none can be read."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    rows: Any = SimpleNamespace(schema=COLUMNS)
    module = "tidemark.engine.verify.compare._opened"
    monkeypatch.setattr(module, lambda _, table: _Opened(table, None, None, rows))
    return SimpleNamespace(configuration=Configuration(SimpleNamespace()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(by="email", since=NOON), "need a time, and email is none"),
        (Wanted(until=NOON), "need a time, and no such column"),
        (Wanted(by="at", since=NOON, until=NOON), "--from .* --to .* is nothing"),
        (Wanted(ignore=frozenset({"emial"})), "neither table has a column emial; did you mean email"),
    ],
)
def test_what_cannot_be_done_is_refused(lake: Any, wanted: Wanted, says: str) -> None:
    with pytest.raises(Refused, match=says):
        compare(lake, "shop.a", "shop.b", wanted)


def test_spark_that_dies_while_it_compares_is_an_outage(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a server that is gone when the columns are asked for, then that is a state with its remedy, no fault of ours."""

    class Gone:
        @property
        def schema(self) -> StructType:
            raise SparkConnectGrpcException("StatusCode.UNAVAILABLE: failed to connect to all addresses")

    rows: Any = Gone()
    module = "tidemark.engine.verify.compare._opened"
    monkeypatch.setattr(module, lambda _, table: _Opened(table, None, None, rows))
    with pytest.raises(Outage) as raised:
        compare(lake, "shop.a", "shop.b", Wanted(keys=("id",)))
    assert (raised.value.state, raised.value.table) == ("spark_down", "shop.a")


def test_a_word_is_no_table() -> None:
    with pytest.raises(Refused, match="nope is no table"):
        compare(SimpleNamespace(), "nope", "shop.b", Wanted())  # type: ignore[arg-type]


def test_what_is_made_of_personal_data_is_hidden_under_its_new_name() -> None:
    """Given a mart that carries a tagged column as `mail`, then its values are hidden like those of the column itself."""
    contract = Contract(topic="orders", table="shop.orders", columns={"customerEmail": {"tags": ["PII"]}})
    mart = [
        {"name": "mail", "type": "string", "from": [["shop.orders", "customeremail"]]},
        {"name": "n", "type": "long"},
    ]
    seen = Discovery().with_described("marts.customers", mart)
    configuration = Configuration(SimpleNamespace(), (contract,))  # type: ignore[arg-type]
    assert _hidden(configuration, {"marts.customers"}, seen) == {"mail"}
    assert "customeremail" in _hidden(configuration, {"marts.customers", "shop.orders"}, seen)
    assert _hidden(configuration, {"marts.others"}, seen) == frozenset()
