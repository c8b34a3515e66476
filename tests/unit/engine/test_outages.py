"""An exception of a client library becomes one named state, with words that help."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from traceback import TracebackException

import boto3
import grpc
import pyarrow as pa
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from dagster_shared.error import SerializableErrorInfo
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors.exceptions.base import SessionNotSameException

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import Outage, Overtaken, Stopped
from tidemark.engine.access import rest_catalog
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load

PASSWORD = "hunter2"
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
    with pytest.raises(Stopped, match="register the newest file") as stopped, translated("shop.orders"):
        load(restored, "shop.orders")
    assert stopped.value.state == "table_missing"
    restored.drop_table("shop.orders")
    restored.register_table("shop.orders", table.metadata_location)
    with translated("shop.orders"):
        assert load(restored, "shop.orders").scan().to_arrow().num_rows == 3


def test_a_session_that_another_table_lost_meanwhile_is_a_reason_to_plan_again():
    """Given frames of the session of before and of now, when they meet, then it is no failure of the table."""
    with pytest.raises(Overtaken), translated("shop.orders"):
        raise SessionNotSameException(errorClass="SESSION_NOT_SAME", messageParameters={})


def test_a_snapshot_that_somebody_expired_while_it_was_read_is_a_reason_to_plan_again():
    with pytest.raises(Overtaken), translated("shop.orders"):
        raise RuntimeError("IllegalArgumentException: Cannot find snapshot with ID 17")


def test_what_grpc_raises_is_told_without_its_debugging():
    """Given a Spark server that nobody answers for, when a call of Spark Connect fails, then its details are told, in one line."""
    with (
        grpc.insecure_channel("127.0.0.1:1") as channel,
        pytest.raises(Outage) as outage,
        translated("shop.orders"),
    ):
        channel.unary_unary("/spark.connect.SparkConnectService/Config")(b"")
    assert outage.value.state == "spark_down"
    assert "Spark Connect: failed to connect" in outage.value.message
    assert "debug_error_string" not in outage.value.message


def test_a_broker_that_stalls_under_a_read_is_an_outage():
    says = "java.util.concurrent.TimeoutException: Cannot fetch record for offset 3 in 30000 milliseconds"
    with pytest.raises(Outage) as stopped, translated("shop.orders"):
        raise RuntimeError(says)
    assert stopped.value.state == "kafka_down"


@pytest.mark.parametrize(
    ("says", "state"),
    [
        (
            "S3Exception: The AWS Access Key Id you provided does not exist in our records. (Service: S3, Status Code: 403)",
            "permission_denied",
        ),
        (
            "OSError: When reading information for key 'm.json' in bucket 'lake': AWS Error INVALID_ACCESS_KEY_ID during …",
            "permission_denied",
        ),
        (
            "OSError: When getting information for bucket 'lake': AWS Error SIGNATURE_DOES_NOT_MATCH during HeadBucket",
            "permission_denied",
        ),
        (
            'OperationalError: connection failed: FATAL:  password authentication failed for user "tidemark"',
            "permission_denied",
        ),
        (
            "UncheckedSQLException: Failed to initialize: ERROR: permission denied for table iceberg_tables",
            "permission_denied",
        ),
        (
            "SdkClientException: Unable to load credentials from any of the providers in the chain",
            "permission_denied",
        ),
        ("S3Exception: The provided token has expired. (Service: S3, Status Code: 400)", "store_down"),
        ("S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503)", "store_down"),
        ("OSError: google::cloud::Status(UNAVAILABLE: Failed to flush response stream)", "store_down"),
        (
            "PermissionError: [Errno 13] google::cloud::Status(PERMISSION_DENIED: Permanent error)",
            "permission_denied",
        ),
        ("com.google.cloud.storage.StorageException: 503 Service Unavailable", "store_down"),
        (
            "com.google.cloud.storage.StorageException: a@b does not have storage.objects.create access to the object",
            "permission_denied",
        ),
        ("com.azure.storage.blob.models.BlobStorageException: Status code 503, ServerBusy", "store_down"),
        (
            "OSError: GetProperties for a failed. Azure Error: [ServerBusy] 503 The server is busy",
            "store_down",
        ),
        (
            "DataLakeStorageException: Status code 403, AuthorizationPermissionMismatch: not authorized",
            "permission_denied",
        ),
        ("OSError: [Errno 16] Please reduce your request rate.", "store_down"),
        ("PermissionError: Access Denied", "permission_denied"),
        ("OperationalError: connection failed: Connection refused", "catalog_down"),
    ],
)
def test_a_refused_login_is_told_apart_from_a_service_that_is_away(says, state):
    with pytest.raises((Stopped, Outage)) as stopped, translated("shop.orders"):
        raise RuntimeError(says)
    assert stopped.value.state == state


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
        translated("shop.orders"),
    ):
        raise RuntimeError(says)
    assert stopped.value.state == "misconfigured"


def test_a_partition_value_beyond_its_type_says_how_to_partition():
    """Given truncate(50, …) of the least decimal, then the contract is to be mended: Spark says it as the files are closed."""
    with (
        pytest.raises(Stopped, match=r"truncate of a decimal rounds down") as stopped,
        translated("shop.orders"),
    ):
        raise RuntimeError("AppendWriteException: Cannot write value as decimal(5,2), too large: -1000.00")
    assert stopped.value.state == "misconfigured"


@pytest.mark.parametrize(
    ("says", "jar"),
    [
        (
            'RuntimeIOException: UnsupportedFileSystemException: No FileSystem for scheme "s3"',
            "iceberg-aws-bundle",
        ),
        (
            "Cannot initialize FileIO [java.lang.NoClassDefFoundError: software/amazon/awssdk/core/SdkException]",
            "iceberg-aws-bundle",
        ),
        (
            "UncheckedSQLException: No suitable driver found for jdbc:postgresql://h/d",
            "org.postgresql:postgresql",
        ),
    ],
)
def test_a_jar_that_the_spark_server_lacks_is_named(says, jar):
    """Given a Spark server of somebody's own without what the store or the catalog needs, then no outage is waited for."""
    with pytest.raises(Stopped, match=jar) as stopped, translated("shop.orders"):
        raise RuntimeError(says)
    assert stopped.value.state == "misconfigured"


@pytest.mark.parametrize(
    "says",
    [
        "Invalid update timestamp 1: before last snapshot log entry at 3600001",
        "Invalid update timestamp 1: before the latest metadata log entry timestamp 3600001",
        "[BUG] Expected sorted snapshot log entries.",
        "[BUG] Expected sorted previous metadata log entries.",
    ],
)
def test_clocks_that_differ_are_named(says):
    """Given a commit of Spark whose clock is an hour behind that of the table's last one, then it is the clocks that are to be mended."""
    with (
        pytest.raises(Stopped, match="let all hosts keep the same time") as stopped,
        translated("shop.orders"),
    ):
        raise RuntimeError(f"(java.lang.IllegalArgumentException) {says}")
    assert stopped.value.state == "failed"


def test_a_disk_says_so_itself(tmp_path):
    with pytest.raises(Stopped, match="partition_by makes folders"), translated("shop.orders"):
        (tmp_path / f"country={'x' * 300}").mkdir()


@contextmanager
def answering(code: int, body: bytes = b"<html>no</html>") -> Iterator[str]:
    """A server that answers everything with one status, and a page, as a proxy does."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("code", "kind", "state"),
    [
        (200, Outage, "catalog_down"),
        (401, Stopped, "permission_denied"),
        (403, Stopped, "permission_denied"),
        (404, Outage, "catalog_down"),
        (500, Outage, "catalog_down"),
        (503, Outage, "catalog_down"),
    ],
)
def test_what_a_rest_catalog_answers_becomes_a_state_of_the_catalog(
    code: int, kind: type[Exception], state: str
) -> None:
    """Given a REST catalog, or a proxy before it, that answers with a status or a page, when it is opened, then the state is the catalog's: retried, but for a refusal."""
    with answering(code) as uri, pytest.raises(kind) as told, translated("shop.orders"):
        load_catalog("lake", type="rest", uri=uri)
    assert told.value.state == state
    assert "tidemark run TABLE" not in told.value.next_step


@pytest.mark.parametrize("code", [401, 500])
def test_the_password_of_a_catalog_is_in_no_error_below_ours(code: int) -> None:
    """Given a REST catalog whose URI has a login, when it refuses, then what Dagster keeps of the error and those that it came from names no password, and still says where each was raised."""
    with (
        answering(code) as uri,
        pytest.raises((Outage, Stopped)) as told,
        translated("shop.orders"),
        translated(),
    ):
        load_catalog("lake", type="rest", uri=uri.replace("//", f"//tide:{PASSWORD}@"))
    shown = str(SerializableErrorInfo.from_traceback(TracebackException.from_exception(told.value)))
    assert PASSWORD not in shown
    assert "HTTPError: " in shown
    assert "raise_for_status" in shown


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/", "http://no-such-host.invalid/"])
def test_a_rest_catalog_that_is_not_there_is_not_taken_for_spark(uri: str) -> None:
    with pytest.raises(Outage) as told, translated("-"):
        load_catalog("lake", type="rest", uri=uri)
    assert told.value.state == "catalog_down"
    assert told.value.as_json()["table"] is None
    assert not told.value.message.startswith("-")
    with pytest.raises(Outage, match=r"^shop\.orders is catalog_down"), translated("shop.orders"):
        raise told.value


GLUE = {
    "type": "glue",
    "glue.region": "eu-west-1",
    "glue.access-key-id": "a",
    "glue.secret-access-key": "s",
    "glue.max-retries": 1,
}


@pytest.mark.parametrize(
    ("code", "kind", "state"),
    [
        ("ThrottlingException", Outage, "catalog_down"),
        ("InternalServiceException", Outage, "catalog_down"),
        ("OperationTimeoutException", Outage, "catalog_down"),
        ("ExpiredTokenException", Outage, "catalog_down"),
        ("AccessDeniedException", Stopped, "permission_denied"),
        ("UnrecognizedClientException", Stopped, "permission_denied"),
        ("InvalidInputException", Stopped, "failed"),
    ],
)
def test_what_glue_answers_has_a_state(code: str, kind: type[Exception], state: str) -> None:
    with pytest.raises(kind) as told, translated("shop.orders"):
        raise ClientError({"Error": {"Code": code, "Message": "m"}}, "GetTable")
    assert told.value.state == state


def test_glue_that_is_not_there_or_does_not_answer_is_down(hung: tuple[str, list[socket.socket]]) -> None:
    with pytest.raises(Outage) as told, translated("shop.orders"):
        load_catalog("lake", **GLUE, **{"glue.endpoint": "http://127.0.0.1:1"}).list_namespaces()
    assert told.value.state == "catalog_down"
    impatient = Config(read_timeout=0.2, retries={"max_attempts": 0})
    client = boto3.client(
        "glue", "eu-west-1", endpoint_url=hung[0], config=impatient,
        aws_access_key_id="a", aws_secret_access_key="s",
    )  # fmt: skip
    with pytest.raises(Outage) as told, translated("shop.orders"):
        GlueCatalog("lake", client).list_namespaces()
    assert told.value.state == "catalog_down"


def test_glue_without_credentials_is_a_refused_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    nobody = {key: value for key, value in GLUE.items() if "access-key" not in key}
    with pytest.raises(Stopped, match="Unable to locate credentials") as told, translated("shop.orders"):
        load_catalog("lake", **nobody).list_namespaces()
    assert told.value.state == "permission_denied"


def test_hive_says_what_to_install_and_what_does_not_answer() -> None:
    with pytest.raises(Stopped, match=r"pip install 'pyiceberg\[hive\]'") as told, translated("shop.orders"):
        load_catalog("lake", type="hive", uri="thrift://127.0.0.1:1")
    assert told.value.state == "misconfigured"

    class TTransportException(Exception):
        """As Thrift's own, which is not installed."""

    with pytest.raises(Outage) as down, translated("shop.orders"):
        raise TTransportException("Could not connect to any of [('127.0.0.1', 1)]")
    assert down.value.state == "catalog_down"


@pytest.fixture
def hung() -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a load balancer that accepts and never answers, and whom it has accepted."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(server.accept()[0])

        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", kept
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for each in kept:
        each.close()


def lake_at(uri: str) -> Lake:
    platform = {
        "kafka": {"main": {"bootstrap.servers": "127.0.0.1:1"}},
        "catalog": {"type": "rest", "uri": uri, "token": "t"},
        "spark": {"remote": "sc://127.0.0.1:1"},
    }
    return Lake(Configuration(Platform.model_validate(platform)))


def test_a_warehouse_that_a_rest_catalog_does_not_know_is_no_outage() -> None:
    """Given a 404 to the question for the configuration, when it is the catalog's own, then the platform file is to blame; a proxy's is waited out."""
    unknown = {"message": "Unable to find warehouse lkae", "type": "NotFoundException", "code": 404}
    with (
        answering(404, json.dumps({"error": unknown}).encode()) as uri,
        pytest.raises(Stopped, match=r"catalog in platform\.yaml.*Unable to find warehouse lkae") as told,
    ):
        lake_at(uri).state("shop.orders")
    assert told.value.state == "misconfigured"
    with answering(404) as uri, pytest.raises(Outage) as down:
        lake_at(uri).state("shop.orders")
    assert down.value.state == "catalog_down"


def asked(lake: Lake, table: str) -> Exception | None:
    try:
        lake.state(table)
    except Outage as outage:
        return outage
    return None


def test_a_rest_catalog_that_accepts_and_never_answers_is_down(
    hung: tuple[str, list[socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a load balancer before a catalog that hangs, when eight workers ask, then each hears of an outage, and all wait together once."""
    uri, accepted = hung
    monkeypatch.setattr(rest_catalog, "TIMEOUT", (5.0, 0.5))
    lake, began = lake_at(uri), time.monotonic()
    pool = ThreadPoolExecutor(8)
    told = [pool.submit(asked, lake, f"shop.t{n}") for n in range(8)]
    found = [each.result(timeout=20) for each in told]
    assert {each.state if isinstance(each, Outage) else None for each in found} == {"catalog_down"}
    assert sorted(str(each).split()[0] for each in found) == [f"shop.t{n}" for n in range(8)]
    assert time.monotonic() - began < 5
    assert len(accepted) == 1
    time.sleep(1.5)
    assert asked(lake, "shop.t0"), "after a while it is asked again"
    assert len(accepted) == 2


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (KafkaError._TRANSPORT, "kafka_down"),
        (KafkaError.REQUEST_TIMED_OUT, "kafka_down"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "topic_missing"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "permission_denied"),
        (KafkaError.POLICY_VIOLATION, "failed"),
    ],
)
def test_what_librdkafka_raises_has_a_state(code: int, state: str) -> None:
    with pytest.raises((Outage, Stopped)) as told, translated("shop.orders"):
        raise KafkaException(KafkaError(code, retriable=code == KafkaError.REQUEST_TIMED_OUT))
    assert told.value.state == state


def test_a_client_that_librdkafka_refuses_to_make_is_misconfigured() -> None:
    """Given a platform file that names a certificate that is not there, when a client is made, then it is no fault without a name."""
    with pytest.raises(Stopped, match=r"ssl\.ca\.location failed") as told, translated("shop.orders"):
        AdminClient({"security.protocol": "ssl", "ssl.ca.location": "/nope.pem", "log_level": 0})
    assert told.value.state == "misconfigured"
