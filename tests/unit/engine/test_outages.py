"""An exception of a client library becomes one named state, with words that help."""

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.errors import Stopped
from tidemark.engine.access.outages import named
from tidemark.engine.access.table_state import load

ROW = pa.table({"id": pa.array([1], pa.int64())})


def test_a_catalog_from_a_backup_whose_metadata_file_is_gone_says_what_to_register(tmp_path):
    """Given a catalog that was restored and names a metadata file that commits since have removed, when the table is read, then it is missing, not empty, and the newest file is to be registered."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    keep = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = catalog.create_table("shop.orders", ROW.schema, properties=keep)
    (tmp_path / "backup.db").write_bytes((tmp_path / "c.db").read_bytes())
    for _ in range(3):
        table.append(ROW)
    restored = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/backup.db", warehouse=f"file://{tmp_path}")
    with pytest.raises(Stopped, match="register the newest file") as stopped, named("shop.orders"):
        load(restored, "shop.orders")
    assert stopped.value.state == "table_missing"
    restored.drop_table("shop.orders")
    restored.register_table("shop.orders", table.metadata_location)
    with named("shop.orders"):
        assert load(restored, "shop.orders").scan().to_arrow().num_rows == 3


@pytest.mark.parametrize(
    "says",
    [
        "SparkException: Caused by: java.nio.file.FileSystemException: /lake/country=xxx: File name too long",
        "software.amazon.awssdk.services.s3.model.S3Exception: Your key is too long (Status Code: 400) KeyTooLongError",
        "RemoteException(PathComponentTooLongException): The maximum path component name limit is exceeded",
    ],
    ids=["disk", "s3", "hdfs"],
)
def test_a_partition_value_too_long_for_a_path_says_how_to_partition(says):
    """Given a table partitioned by a text, when one is longer than a name in the store may be, then the contract is to be mended, and no outage is waited for."""
    with (
        pytest.raises(Stopped, match=r"bucket\(16, COLUMN\) or truncate\(16, COLUMN\)") as stopped,
        named("shop.orders"),
    ):
        raise RuntimeError(says)
    assert stopped.value.state == "misconfigured"


def test_a_disk_says_so_itself(tmp_path):
    with pytest.raises(Stopped, match="partition_by makes folders"), named("shop.orders"):
        (tmp_path / f"country={'x' * 300}").mkdir()
