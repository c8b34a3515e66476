"""A lakehouse whose warehouse lies on an object store: moto's S3."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
from elsewhere import Elsewhere, elsewhere
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

BUCKET = "lake"
LOCAL = "127.0.0.1"
KEYS = {"s3.access-key-id": "test", "s3.secret-access-key": "test", "s3.region": "us-east-1"}


class Store:
    """One bucket. Its content outlives `stop` and `start`."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it tells of every request
        self._server = ThreadedMotoServer(LOCAL, 0, verbose=False)
        self._server.start()
        self.endpoint = f"http://{LOCAL}:{self._server.get_host_and_port()[1]}"
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket=BUCKET)

    def stop(self) -> None:
        self._server.stop()
        self._server._server.server_close()

    def start(self) -> None:
        self._server = ThreadedMotoServer(LOCAL, int(self.endpoint.rpartition(":")[2]), verbose=False)
        self._server.start()

    def put(self, uri: str, *, days_old: float = 0) -> None:
        """A strange file."""
        key = uri.removeprefix(f"s3://{BUCKET}/")
        self.client.put_object(Bucket=BUCKET, Key=key, Body=b"nobody's")
        self._age(key, days_old)

    def listed(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {each["Key"] for page in pages for each in page.get("Contents", ())}

    def grow_old(self, days: float) -> None:
        """Whatever is there was written so long ago."""
        for key in self.listed():
            self._age(key, days)

    def _age(self, key: str, days: float) -> None:
        held = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys[key]
        held.last_modified = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days)


def on_store(stack: dict[str, Any], remote: str, store: Store, folder: Path) -> Elsewhere:
    """A lakehouse on `store` with the Spark server at `remote`."""
    catalog = {
        "name": "bucket",
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}?timeout=60",
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.endpoint": store.endpoint,
        "s3.path-style-access": "true",
        "s3.retry.num-retries": "0",
        **KEYS,
    }
    return elsewhere(stack, remote, catalog, folder)
