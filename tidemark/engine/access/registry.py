"""The schema registry, over its Confluent-compatible REST API. Registered schemas never change, so they are kept.

The number of one that was deleted for good may be given to another, but only once all later ones are gone, too: while
the newest that is kept of a subject is still what it was, so are the others.
"""

import logging
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from tidemark.domain.config.platform import SchemaRegistry
from tidemark.domain.errors import NO_TABLE, Outage, Stopped
from tidemark.domain.secrets import redact_text
from tidemark.engine.access.listening import proxy_of

TIMEOUT, BRIEF = 10.0, 2.0
_NOT_FOUND = 404
_DENIED = {401, 403}
_CCOMPAT = "/apis/ccompat/"
"""Where Apicurio speaks Confluent's interface."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject; `imports` are names and texts of the schemas it refers to, dependencies first.

    `deleted`: softly, and the subject has others that are not.
    """

    id: int
    version: int
    type: str
    text: str
    imports: tuple[tuple[str, str], ...] = ()
    deleted: bool = False

    @property
    def references(self) -> tuple[str, ...]:
        """The texts alone, each once."""
        return tuple(dict.fromkeys(text for _, text in self.imports))


class Registry:
    """One registry of platform.yaml. Thread-safe."""

    def __init__(self, cluster: str, block: SchemaRegistry) -> None:
        """Raises Stopped: `misconfigured`, a URL, a proxy or a file for TLS that cannot be used."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each request
        self.cluster = cluster
        self._url = block.address
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if block.bearer_token:
            headers["Authorization"] = f"Bearer {block.bearer_token}"
        tls = _tls(cluster, block)
        with _blamed(cluster, {"url": self._url}):
            httpx.URL(self._url)
            proxy = proxy_of(self._url)
        shown = proxy and redact_text(proxy)
        self._way = f" (by the proxy {shown}; NO_PROXY spares it)" if shown else ""
        with _blamed(cluster, {"url": self._url, "by the proxy": shown}):
            self._client = httpx.Client(
                headers=headers,
                auth=block.basic_auth,
                timeout=TIMEOUT,
                verify=tls,
                proxy=proxy,
                trust_env=False,
            )
        self._versions: dict[str, dict[int, RegisteredSchema]] = {}
        self._by_id: dict[int, RegisteredSchema] = {}
        self._kept_references: dict[tuple[str, str], Mapping[str, Any]] = {}
        """What it said of subjects and versions that others refer to: none is deleted for good before those."""
        self._silent = (0.0, "")
        """It did not answer, and why: until when nobody asks again, which is for as long as asking took."""

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Every version that the registry lists for `subject`, oldest first, soft-deleted ones too; () when unknown.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        numbers = self.numbers(subject)
        living = self._numbers(subject) if len(numbers) > 1 else numbers
        known = self._versions.get(subject, {})
        if known and known.keys() != set(numbers):
            for gone in known.keys() - set(numbers):
                known.pop(gone, None)
                self._kept_references.clear()
            self.confirm(subject)
        found = [self._version(subject, number) for number in numbers]
        return tuple(
            each if not living or each.version in living else replace(each, deleted=True) for each in found
        )

    def confirm(self, subject: str) -> None:
        """Ask for the newest version that is kept of `subject` again, and forget them all when it is another by now.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        number = max(self._versions.get(subject, ()), default=None)
        if number is not None and self._read(subject, number) is None:
            self._versions.pop(subject, None)
            self._kept_references.clear()

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version that is not deleted; None when the subject has none. Asked anew each time.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._kept(subject, int(found["version"]), found) if found else None

    def version(self, subject: str, number: int) -> RegisteredSchema | None:
        """One version, be it soft-deleted; None when the registry does not list it.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        listed = number in self._versions.get(subject, ()) or number in self.numbers(subject)
        return self._version(subject, number) if listed else None

    def numbers(self, subject: str) -> tuple[int, ...]:
        """The version numbers of a subject, soft-deleted ones too; () when unknown."""
        return self._numbers(subject, deleted="true")

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """A schema by its id, under whatever subject; None when the registry does not know the id.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        if schema_id not in self._by_id:
            found = self._get(f"/schemas/ids/{schema_id}")
            if found is None:
                return None
            self._by_id[schema_id] = self._registered(found, schema_id, 0)
        return self._by_id[schema_id]

    def exists(self, schema_id: int) -> bool:
        """Whether any subject has a schema of this id."""
        return self._get(f"/schemas/ids/{schema_id}") is not None

    def compatibility(self, subject: str) -> str | None:
        """The compatibility mode that holds for `subject`, its own or the registry's; None when there is none.

        Raises:
            Outage: `registry_down`.
            Stopped: `permission_denied`.
        """
        own = _mode(self._get(f"/config/{quote(subject, safe='')}"))
        if own == "NONE" and not self._has_rule(subject):
            own = None
        return own or _mode(self._get("/config"))

    def request(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Any call, with our credentials: for drills, which register schemas of their own.

        Raises:
            Outage: `registry_down`, or it refuses.
        """
        try:
            return self._client.request(method, self._url + path, **what).raise_for_status()
        except httpx.HTTPError as error:
            raise Outage(
                "registry_down", NO_TABLE, f"{method} {path}: {error}{self._way}", cluster=self.cluster
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _has_rule(self, subject: str) -> bool:
        """Whether a subject that says NONE means it: Apicurio says so of each that follows the registry's mode."""
        root, apicurio, _ = self._url.partition(_CCOMPAT)
        if not apicurio:
            return True
        path = f"/apis/registry/v2/groups/default/artifacts/{quote(subject, safe='')}/rules"
        return "COMPATIBILITY" in (self._get(path, root) or ())

    def _numbers(self, subject: str, **params: str) -> tuple[int, ...]:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions", **params)
        return tuple(sorted(int(number) for number in found or []))

    def _version(self, subject: str, number: int) -> RegisteredSchema:
        found = self._versions.get(subject, {}).get(number) or self._read(subject, number)
        if found is None:
            raise Outage(
                "registry_down",
                NO_TABLE,
                f"version {number} of {subject} vanished while it was read",
                cluster=self.cluster,
            )
        return found

    def _read(self, subject: str, number: int) -> RegisteredSchema | None:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}", deleted="true")
        return None if found is None else self._kept(subject, number, found)

    def _kept(self, subject: str, number: int, found: Mapping[str, Any]) -> RegisteredSchema:
        known = self._versions.setdefault(subject, {})
        schema, schema_id = known.get(number), int(found["id"])
        if schema and schema.id == schema_id:
            return schema
        if schema:
            known.clear()
            self._kept_references.clear()
        known[number] = made = self._registered(found, schema_id, number)
        return made

    def _registered(self, found: Mapping[str, Any], schema_id: int, number: int) -> RegisteredSchema:
        return RegisteredSchema(
            id=schema_id,
            version=number,
            type=str(found.get("schemaType") or "AVRO"),
            text=str(found["schema"]),
            imports=self._references(found.get("references") or []),
        )

    def _references(self, references: list[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
        texts: dict[tuple[str, str], None] = {}
        self._refer(references, set(), texts)
        return tuple(texts)

    def _refer(
        self,
        references: list[Mapping[str, Any]],
        seen: set[tuple[str, str, str]],
        texts: dict[tuple[str, str], None],
    ) -> None:
        """Add what the references lead to, dependencies first; what was `seen` is there, or on its way in a circle."""
        for reference in references:
            name, subject, number = (str(reference[key]) for key in ("name", "subject", "version"))
            if (name, subject, number) not in seen:
                seen.add((name, subject, number))
                found = self._referred(subject, number)
                self._refer(found.get("references") or [], seen, texts)
                texts.setdefault((name, str(found["schema"])))

    def _referred(self, subject: str, number: str) -> Mapping[str, Any]:
        found = self._kept_references.get((subject, number))
        if found is None:
            path = f"/subjects/{quote(subject, safe='')}/versions/{number}"
            found = self._get(path, deleted="true")
            if found is None:
                why = f"the registry does not have the referenced {subject}"
                raise Stopped("schema_unsupported", NO_TABLE, why)
            if number.isdecimal():  # -1 is the latest, whichever that is
                self._kept_references[subject, number] = found
        return found

    def _get(self, path: str, root: str | None = None, **params: str) -> Any | None:
        began = time.monotonic()
        if began < self._silent[0]:
            raise Outage("registry_down", NO_TABLE, self._silent[1], cluster=self.cluster)
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type((httpx.TransportError, _ServerError)),
                stop=stop_after_attempt(3),
                wait=wait_exponential(multiplier=0.2, max=2),
                reraise=True,
            ):
                with attempt:
                    return self._once((self._url if root is None else root) + path, params)
        except (httpx.HTTPError, _ServerError) as error:
            says = f"{self._url}: {error}{self._way}"
            if isinstance(error, httpx.TransportError) and not self._answers():
                self._silent = 2 * time.monotonic() - began, says
            raise Outage("registry_down", NO_TABLE, says, cluster=self.cluster) from error
        return None

    def _answers(self) -> bool:
        """Whether it says anything at all: one subject may be slow while all others are not."""
        try:
            self._client.get(f"{self._url}/config", timeout=BRIEF)
        except httpx.TransportError:
            return False
        return True

    def _once(self, url: str, params: Mapping[str, str]) -> Any | None:
        answer = self._client.get(url, params=dict(params))
        read = url.startswith((f"{self._url}/subjects/", f"{self._url}/schemas/"))
        if answer.status_code == _NOT_FOUND and (_says_so(answer) or not read):
            return None  # an ingress may well hide the rest
        if answer.status_code in _DENIED:
            raise Stopped(
                "permission_denied",
                NO_TABLE,
                f"the schema registry answered {answer.status_code} to {url}{self._way}",
                cluster=self.cluster,
            )
        if answer.is_error:
            raise _ServerError(f"status {answer.status_code} for {url}: {answer.text[:200]}")
        try:
            found = answer.json()
        except ValueError as error:
            raise _ServerError(f"no JSON from {url}: {answer.text[:200]}") from error
        if not _is_answer(url, found):
            raise _ServerError(f"no answer of a registry from {url}: {answer.text[:200]}")
        return found


def _says_so(answer: httpx.Response) -> bool:
    """Whether it is a registry that knows no such thing: what stands before one has none of its error codes."""
    try:
        said = answer.json()
    except ValueError:
        return False
    return isinstance(said, Mapping) and "error_code" in said


def _is_answer(url: str, found: Any) -> bool:
    """Whether a registry answers so: what stands before one may speak JSON too."""
    if url.endswith("/versions"):
        return isinstance(found, list) and all(isinstance(each, int) for each in found)
    if url.endswith("/rules"):
        return isinstance(found, list)
    needed = {"schema", "id"} if "/versions/" in url else {"schema"} if "/schemas/ids/" in url else set()
    return isinstance(found, Mapping) and needed <= found.keys()


def _mode(found: Mapping[str, Any] | None) -> str | None:
    mode = found and (found.get("compatibilityLevel") or found.get("compatibility"))
    return str(mode) if mode else None


def _tls(cluster: str, block: SchemaRegistry) -> ssl.SSLContext:
    with _blamed(cluster, {"ssl.ca.location": block.ca_location}):
        context = ssl.create_default_context(cafile=block.ca_location)
    own = {"ssl.certificate.location": block.certificate_location, "ssl.key.location": block.key_location}
    if block.certificate_location:
        with _blamed(cluster, own):
            # a password that is wrong: OpenSSL would ask the terminal for that of a key which has one
            context.load_cert_chain(block.certificate_location, block.key_location, password="")
    return context


@contextmanager
def _blamed(cluster: str, keys: Mapping[str, str | None]) -> Iterator[None]:
    """What is of no use, as a file that is not there, is named with its key."""
    try:
        yield
    except (OSError, ValueError, httpx.InvalidURL) as error:
        said = ", ".join(f"{key} {value}" for key, value in keys.items() if value)
        why = f"schema_registry.{cluster} in platform.yaml: {said}: {error}"
        raise Stopped("misconfigured", NO_TABLE, why, cluster=cluster) from error


class _ServerError(Exception):
    """An answer that says the registry itself is in trouble, or that is none of a registry (a proxy's page)."""
