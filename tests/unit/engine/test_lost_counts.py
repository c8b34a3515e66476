"""Counts that did not arrive are a lost answer: the batch is planned again, nothing is believed."""

from types import SimpleNamespace

import pytest

from tidemark.engine.ingest.observe import Counting, CountsLost, evidence


def test_a_pass_whose_counts_are_lost_is_an_outage():
    with pytest.raises(CountsLost) as found:
        evidence(SimpleNamespace(get={}), Counting({0}))
    assert found.value.state == "spark_down"
