"""Which state an exception of a client library means. One place, for every caller asks the same question.

A lost answer is an outage too: the outcome is unknown and the table must be looked at.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from pydantic import ValidationError
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from requests.exceptions import RequestException

from tidemark.domain.errors import (
    NO_TABLE,
    Outage,
    Overtaken,
    Stopped,
    TidemarkError,
    state_of,
    without_secrets,
)
from tidemark.domain.states import OUTAGES, State

T = TypeVar("T")
_SPARK_GONE = (
    "UNAVAILABLE",
    "failed to connect",
    "RESPONSE_ALREADY_RECEIVED",
    "SESSION_NOT_FOUND",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "OPERATION_NOT_FOUND",
    "INVALID_HANDLE",
    "Socket closed",
    "Connection refused",
    "Connection reset",
    "SparkContext was shut down",
    "stopped SparkContext",
    "RETRIES_EXCEEDED",
    "NO_ACTIVE_SESSION",
)
_KAFKA_GONE = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "Failed to construct kafka consumer",
    "No resolvable bootstrap urls",
    "LEADER_NOT_AVAILABLE",
    "KafkaTimeoutException",
    "KafkaStorageException",
    "Timeout of",
    "Cannot fetch offset",
    "Cannot fetch record for offset",
    "UnknownTopicOrPartitionException",
)
_KAFKA_LOST = ("KAFKA_DATA_LOSS", "OffsetOutOfRangeException", "Some data may have been lost")
_DENIED = (
    "TopicAuthorizationException",
    "GroupAuthorizationException",
    "SaslAuthenticationException",
    "AccessDenied",
    "ACCESS_DENIED",
    "NotAuthorizedException",
    "ForbiddenException",
    "Status Code: 401",
    "Status Code: 403",
    "InvalidAccessKeyId",
    "INVALID_ACCESS_KEY_ID",
    "SignatureDoesNotMatch",
    "SIGNATURE_DOES_NOT_MATCH",
    "NoCredentialsError",
    "Unable to load credentials",
    "UnrecognizedClientException",
    "authentication failed for user",
    "permission denied for",
    "PERMISSION_DENIED",
    "does not have storage.",
    "AuthorizationPermissionMismatch",
    "AuthorizationFailure",
    "PermissionError: Access Denied",
    "PermissionError: Forbidden",
)
"""Of Kafka, the AWS SDK (REST catalogs, Glue, S3), PyArrow, s3fs, Google's and Azure's stores, and Postgres; a token
that expired is not among them, for whoever renews it does so while we try again."""
_CATALOG_GONE = (
    "SQLITE_BUSY",
    "database is locked",
    "UncheckedSQLException",
    "RESTException",
    "ServiceUnavailableException",
    "ServiceFailureException",
    "CommitStateUnknownException",
    "RuntimeMetaException",
    "Failed to connect to Hive Metastore",
    "TTransportException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServiceException",
    "OperationTimeoutException",
    "ExpiredTokenException",
    "JdbcSQL",
    "OperationalError",
)
"""Of SQL, REST, Hive and Glue; S3 has other names for the same."""
_STORE_GONE = (
    "RuntimeIOException",
    "SdkClientException",
    "S3Exception",
    "AWS Error",
    "NoSuchBucket",
    "reduce your request rate",
    "google::cloud::Status",
    "StorageException",
    "Azure Error: [",
    "No space left on device",
)
"""Of Iceberg, S3, Google's store and Azure's, in the words of Java, PyArrow and s3fs.

Google's status has the words of Spark's gRPC: these signs are looked for before those.
"""
_METADATA_GONE = (
    "The metadata file that the catalog names is gone, as after the restore of a catalog from a backup: register the "
    "newest file of the table's metadata folder instead (docs/operations, The catalog is lost)."
)
_PATH_TOO_LONG = ("File name too long", "KeyTooLong", "PathComponentTooLong")
"""Of a local disk, an S3 store and HDFS: a value of an identity partition is a folder's name."""
_CUT_PARTITIONS = (
    "partition_by makes folders of values that are longer than the store's names may be: use bucket(16, COLUMN) or "
    "truncate(16, COLUMN) instead of the column itself."
)
_ROUNDED_OUT = ("Cannot write value as decimal",)
"""Decimals are exact before they are written; a partition value is made as the files are closed."""
_WIDER_PARTITIONS = (
    "partition_by: truncate of a decimal rounds down, and a value so near the least that its column holds has no room "
    "for that: use bucket(16, COLUMN) instead."
)
_CLOCKS = ("Invalid update timestamp", "Expected sorted snapshot log", "Expected sorted previous metadata")
"""Of Iceberg's Java, which minds more than a minute."""
_SET_CLOCKS = (
    "By the clock of one who committed to the table this is before its last change: let all hosts keep the same time. "
    "The next commit of Tidemark to a table of format 1 or 2 puts its logs in order."
)
_NO_STORE = (
    "No FileSystem for scheme",
    "NoClassDefFoundError: software/amazon/awssdk",
    "NoClassDefFoundError: com/google/cloud",
    "NoClassDefFoundError: com/azure",
)
_STORE_JAR = (
    "The Spark server lacks the jar of the object store, or of Glue: iceberg-aws-bundle, iceberg-gcp-bundle or "
    "iceberg-azure-bundle, of Iceberg's version (docs/guide, Platform file). For the files of `parquet:PATH` it is "
    "Hadoop's own: hadoop-aws, hadoop-azure or Google's connector."
)
_NO_DRIVER = ("No suitable driver",)
_DRIVER_JAR = "The Spark server lacks the JDBC driver of the catalog's database: org.postgresql:postgresql."
_NO_TLS_FILE = ("Could not find a suitable TLS CA", "Could not find the TLS")
"""Of `catalog.ssl`, in the words of requests."""
_EXPLAINED: tuple[tuple[State, tuple[str, ...], str], ...] = (
    ("misconfigured", _PATH_TOO_LONG, _CUT_PARTITIONS),
    ("misconfigured", _ROUNDED_OUT, _WIDER_PARTITIONS),
    ("misconfigured", _NO_STORE, _STORE_JAR),
    ("misconfigured", _NO_DRIVER, _DRIVER_JAR),
    ("failed", _CLOCKS, _SET_CLOCKS),
)
LOST_RACE = ("CommitFailed", "older than last sequence number")
"""A commit did not happen because the table has changed since it was looked at; PyIceberg says it in two ways."""
_PLAN_VOID = (
    *LOST_RACE,
    "TableAlreadyExists",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "SESSION_NOT_SAME",
    "Cannot find snapshot with ID",
)
"""Another writer or expirer was faster, or the session that all tables share was made anew on behalf of another one:
not a state, the plan is made again."""


KAFKA_DENIES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own name
}
KAFKA_LACKS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}


def says(error: BaseException, signs: Iterable[str]) -> bool:
    """Whether the name or the text of an exception has one of the signs."""
    text = f"{type(error).__name__}: {error}"
    return any(sign in text for sign in signs)


def state_of_text(text: str) -> State:
    """The state that an error text of Spark, Kafka or a catalog stands for; `failed` when none is known."""
    signs: tuple[tuple[State, tuple[str, ...]], ...] = (
        ("offsets_expired", _KAFKA_LOST),
        ("permission_denied", _DENIED),
        ("kafka_down", _KAFKA_GONE),
        ("catalog_down", _CATALOG_GONE),
        ("store_down", _STORE_GONE),
        ("spark_down", _SPARK_GONE),
    )
    for state, words in signs:
        if any(word in text for word in words):
            return state
    return "failed"


def state_of_error(error: Exception) -> State:
    """The state of an exception: by its class where a REST catalog or librdkafka raised it, else by its text.

    Nothing but a REST catalog is spoken to through requests, or answers to pydantic.
    """
    if isinstance(error, KafkaException):
        return _of_kafka(error.args[0])
    if isinstance(error, UnauthorizedError | ForbiddenError | OAuthError):
        return "permission_denied"
    if isinstance(error, NotInstalledError) or says(error, _NO_TLS_FILE):
        return "misconfigured"
    no_catalog = isinstance(error, ValidationError) and error.title.endswith("Response")
    if (
        no_catalog
        or (isinstance(error, RequestException | RESTError) and not isinstance(error, BadRequestError))
        or _is_of_glue(error)
    ):
        return "catalog_down"
    return state_of_text(f"{type(error).__name__}: {error}")


def _is_of_glue(error: Exception) -> bool:
    """Whether AWS did not answer boto3, through which PyIceberg asks Glue; whoever has not imported it asked nobody."""
    aws = sys.modules.get("botocore.exceptions")
    return aws is not None and isinstance(error, aws.HTTPClientError | aws.ConnectionError)


def _of_kafka(fault: KafkaError) -> State:
    code = fault.code()
    if code == KafkaError._INVALID_ARG:  # noqa: SLF001
        return "misconfigured"
    if code in KAFKA_DENIES:
        return "permission_denied"
    if code in KAFKA_LACKS:
        return "topic_missing"
    return "kafka_down" if code < 0 or fault.retriable() else "failed"


@contextmanager
def translated(table: str = NO_TABLE, *, topic: str = "?", cluster: str = "main") -> Iterator[None]:
    """Turn what client libraries raise inside the block into our errors, named after `table`.

    Raises:
        Outage: the state is worth a new attempt from the plan.
        Stopped: it is not.
        Overtaken: another writer was faster.
    """
    try:
        yield
    except Exception as error:
        cause, told = without_secrets(error), _told(error, table, topic, cluster)
        if told is error:
            raise
        raise told from cause


def _named(error: TidemarkError, table: str, topic: str, cluster: str) -> TidemarkError:
    """The same of this table; itself where it has the name of one already, or is no state of a table."""
    if isinstance(error, Outage | Stopped):
        if error.table != NO_TABLE:
            return error
        fields = {k: v for k, v in error.fields.items() if k not in {"state", "table", "detail"}}
        detail = str(error.fields.get("detail", ""))
        return type(error)(error.state, table, detail, topic=topic, cluster=cluster, **fields)
    if error.fields.get("state") not in OUTAGES:
        return error
    detail = f"{error.message}: {error.next_step}"
    return Outage(error.fields["state"], table, detail, topic=topic, cluster=cluster)


def _told(error: Exception, table: str, topic: str, cluster: str) -> TidemarkError:
    """What an exception is called here."""
    if isinstance(error, TidemarkError):
        return _named(error, table, topic, cluster)
    if isinstance(error, FileNotFoundError) and "metadata.json" in str(error):
        return Stopped("table_missing", table, f"{_METADATA_GONE} {error}")
    for known, signs, why in _EXPLAINED:
        if says(error, signs):
            return Stopped(known, table, why, topic=topic, cluster=cluster)
    if says(error, _PLAN_VOID):
        return Overtaken(table)
    state = state_of_error(error)
    kind = Outage if state in OUTAGES else Stopped
    return kind(state, table, _first_lines(error), topic=topic, cluster=cluster)


def asked(ask: Callable[[], T]) -> tuple[T | None, State | None]:
    """The answer, or the state that asking for it ended in."""
    try:
        with translated():
            return ask(), None
    except TidemarkError as error:
        return None, state_of(error)


def _first_lines(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if of_grpc := re.search(r'^\s*details = "(.*)"$', text, re.MULTILINE):
        return f"Spark Connect: {of_grpc[1]}"
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " ".join(lines)[:600]
