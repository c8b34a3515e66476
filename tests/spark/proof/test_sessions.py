"""A session takes what platform.yaml says, or says what it cannot take."""

import pytest

from tidemark.domain.errors import Stopped


@pytest.mark.parametrize(
    ("key", "value"), [("spark.sql.warehouse.dir", "/elsewhere"), ("spark.sql.shuffle.partitions", "many")]
)
def test_a_setting_that_the_server_refuses_is_named_and_is_no_outage(lakehouse, key, value):
    lake = lakehouse.open_lake()
    spark = lake.platform.spark.model_copy(update={"conf": {key: value}})
    lake.platform = lake.platform.model_copy(update={"spark": spark})
    with pytest.raises(Stopped) as refused:
        lake.spark()
    assert refused.value.state == "misconfigured"
    assert f"{key}: {value}" in str(refused.value)
    lake.close()
