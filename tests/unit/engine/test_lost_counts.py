"""Counts that did not arrive are a lost answer: the batch is planned again, nothing is believed."""

from types import SimpleNamespace

import pytest

from tidemark.domain.errors import Outage
from tidemark.engine.ingest.observe import evidence


def test_a_pass_whose_counts_are_lost_is_an_outage():
    with pytest.raises(Outage) as found:
        evidence(SimpleNamespace(get={}), [0])
    assert found.value.state == "spark_down"
