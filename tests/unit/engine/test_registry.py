"""Rule: what a registry has said of an id never changes, so it is asked once; a look that finds nothing to do asks for lists alone."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import SchemaRegistry
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access import registry as registry_module
from tidemark.engine.access.listening import listens, proxy_of
from tidemark.engine.access.registry import Registry
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.ready import evolve_if_needed
from tidemark.engine.schema import evolve as evolution
from tidemark.engine.schema.writer import judged
from tidemark.engine.schema.writers import read_schemas

VERSIONS, FIELDS = 20, 200
UNKNOWN = {"error_code": 40401, "message": "Subject not found."}
LISTS = ["/subjects/orders-value/versions"] * 2
"""With what is deleted, and without."""
CONTRACT = Contract.model_validate({"topic": "orders", "table": "shop.orders"})


class Server:
    """A registry with one subject; `asked` are the paths that it was asked for."""

    def __init__(self, versions: int) -> None:
        self.versions, self.asked = versions, list[str]()
        self.deleted = set[int]()
        self.gone, self.anew = set[int](), set[int]()
        """Versions that were deleted for good; those whose number another schema has."""

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        head, _, number = request.url.path.rpartition("/")
        if number == "versions":
            gone = set() if "deleted" in request.url.params else self.deleted
            listed = [n for n in range(1, self.versions + 1) if n not in gone | self.gone]
            return httpx.Response(200, json=listed)
        if not head.endswith("/versions"):
            return httpx.Response(404, json=UNKNOWN)
        version = self.versions if number == "latest" else int(number)
        schema_id = version + (200 if version in self.anew else 100)
        text = json.dumps(schema(version))
        return httpx.Response(200, json={"id": schema_id, "version": version, "schema": text})


def schema(version: int) -> dict[str, Any]:
    """Each version has one field more than the last."""
    fields = [{"name": f"f{n}", "type": ["null", "long"]} for n in range(FIELDS - VERSIONS + version)]
    return {"type": "record", "name": "Order", "fields": fields}


def connected(server: "Server | Library") -> Registry:
    made = Registry("main", SchemaRegistry(url="http://registry"))
    made._client = httpx.Client(transport=httpx.MockTransport(server.answer))
    return made


def test_a_version_is_asked_for_once_and_a_new_one_alone() -> None:
    server = Server(3)
    registry = connected(server)
    first = registry.versions("orders-value")
    assert [each.id for each in first] == [101, 102, 103]
    server.asked.clear()
    assert registry.versions("orders-value") == first
    assert server.asked == LISTS
    server.asked.clear()
    server.versions = 4
    assert len(registry.versions("orders-value")) == 4
    assert server.asked == [*LISTS, *(f"/subjects/orders-value/versions/{n}" for n in (3, 4))]


def test_a_version_whose_number_another_schema_has_is_seen_once_anything_says_so() -> None:
    """Given three versions, when the last two are deleted for good and others registered, then a running process sees them."""

    def ids() -> list[int]:
        return [each.id for each in registry.versions("orders-value")]

    for count, seen in ((2, [101, 202]), (3, [101, 202, 203]), (4, [101, 202, 203, 104])):
        server = Server(3)
        registry = connected(server)
        assert ids() == [101, 102, 103]
        server.anew, server.versions = {2, 3}, count
        if count == 3:
            assert ids() == [101, 102, 103], "the list is the same"
            registry.confirm("orders-value")
        assert ids() == seen
        server.asked.clear()
        assert ids() == seen
        assert server.asked == LISTS
    server.anew = {4}
    assert [getattr(registry.latest("orders-value"), "id", None) for _ in "ab"] == [204, 204]


def test_a_version_deleted_for_good_below_others_is_forgotten_alone() -> None:
    server = Server(3)
    registry = connected(server)
    registry.versions("orders-value")
    server.gone = {2}
    assert [each.id for each in registry.versions("orders-value")] == [101, 103]
    server.asked.clear()
    assert [each.id for each in registry.versions("orders-value")] == [101, 103]
    assert server.asked == LISTS


def test_versions_that_are_deleted_are_listed_as_such_unless_all_are() -> None:
    server = Server(3)
    registry = connected(server)
    for deleted, told in (({3}, {3}), ({1, 2}, {1, 2}), (set(), set()), ({1, 2, 3}, set())):
        server.deleted = deleted
        found = registry.versions("orders-value")
        assert ([each.version for each in found], {v.version for v in found if v.deleted}) == (
            [1, 2, 3],
            told,
        )


def test_an_unknown_id_is_asked_for_again_and_a_server_in_trouble_is_an_outage() -> None:
    registry = connected(Server(1))
    assert (registry.by_id(5), registry.compatibility("orders-value")) == (None, None)
    registry._client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(503)))
    with pytest.raises(Outage, match="status 503"):
        registry.by_id(5)


@pytest.mark.parametrize(
    ("url", "rules", "mode"),
    [
        ("http://registry", None, "NONE"),
        ("http://registry/apis/ccompat/v7", [], "BACKWARD"),
        ("http://registry/apis/ccompat/v7", ["VALIDITY", "COMPATIBILITY"], "NONE"),
        ("http://registry/apis/ccompat/v7", None, "BACKWARD"),
    ],
)
def test_a_subject_that_says_none_is_asked_whether_it_means_it(url: str, rules: Any, mode: str) -> None:
    """Apicurio answers NONE for every subject without a rule of its own, though the registry's mode holds for it."""
    answers = {
        f"{url}/config/a%2Fb": {"compatibilityLevel": "NONE"},
        f"{url}/config": {"compatibilityLevel": "BACKWARD"},
        "http://registry/apis/registry/v2/groups/default/artifacts/a%2Fb/rules": rules,
    }

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.get(str(request.url))
        said = UNKNOWN if url in str(request.url) else "hidden"
        return httpx.Response(404, json=said) if found is None else httpx.Response(200, json=found)

    registry = Registry("main", SchemaRegistry(url=url))
    registry._client = httpx.Client(transport=httpx.MockTransport(answer))
    assert registry.compatibility("a/b") == mode


def test_a_look_that_finds_nothing_to_do_asks_for_lists_reads_no_schema_and_commits_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given twenty versions of two hundred columns and a table that holds them, when ingest looks again, then it asks for the lists of versions alone."""
    server = Server(VERSIONS)
    registry = connected(server)
    lake: Any = SimpleNamespace(registry=lambda _: registry)
    columns = read_schemas(lake, CONTRACT, None).wanted()
    state = TableState(CONTRACT.table, exists=True, columns=columns)
    monkeypatch.setattr(evolution, "alter", lambda *_: pytest.fail("the table was changed"))
    server.asked.clear()
    parsed = judged.cache_info().misses
    schemas = read_schemas(lake, CONTRACT, None)
    assert evolve_if_needed(lake, CONTRACT, state, schemas, "r") is state
    assert server.asked == LISTS
    assert judged.cache_info().misses == parsed


class Library:
    """A registry of files f1, f2 … that refer to all before them, and of versions of orders-value that refer to the last."""

    def __init__(self, files: int, *, circle: bool = False) -> None:
        self.files, self.circle = files, circle
        self.versions, self.text, self.asked = 1, "of", list[str]()

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        subject, _, number = request.url.path.removeprefix("/subjects/").partition("/versions")
        if not number:
            return httpx.Response(200, json=[*range(1, self.versions + 1)])
        names = [f"f{self.files}"]
        if subject != "orders-value":
            names = [*(["f1"] if self.circle else []), *(f"f{n}" for n in range(1, int(subject[1:])))]
        references = [{"name": f"{name}.proto", "subject": name, "version": 1} for name in names]
        text, at = f"{self.text} {subject}", int(number[1:])
        return httpx.Response(200, json={"id": at, "version": at, "schema": text, "references": references})


@pytest.mark.parametrize("circle", [False, True])
def test_what_schemas_refer_to_is_asked_for_once_and_stands_before_them(circle: bool) -> None:
    """Given forty files that each refer to all before them, when versions that refer to the last are read, then each file is asked for once, though two to the fortieth ways lead there."""
    server = Library(40, circle=circle)
    registry = connected(server)
    (first,) = registry.versions("orders-value")
    assert first.imports == tuple((f"f{n}.proto", f"of f{n}") for n in range(1, 41))
    assert len(server.asked) == len(set(server.asked)) == 42
    server.asked.clear()
    server.versions = 5
    assert [each.imports for each in registry.versions("orders-value")] == [first.imports] * 5
    assert not [path for path in server.asked if "orders-value" not in path]


def test_what_schemas_refer_to_is_asked_for_again_once_one_has_another_number() -> None:
    server = Library(2)
    registry = connected(server)
    registry.versions("orders-value")
    server.versions, server.text = 0, "anew"
    assert registry.versions("orders-value") == ()
    server.versions = 1
    (found,) = registry.versions("orders-value")
    assert found.references == ("anew f1", "anew f2")


@pytest.mark.parametrize(
    ("status", "page", "says"),
    [
        (200, "<html>sign in</html>", "no JSON from http://registry/schemas/ids/7: <html>"),
        (404, "default backend - 404", "status 404 for http://registry/schemas/ids/7: default backend"),
        (404, '{"message": "no Route matched"}', "status 404 for http://registry/schemas/ids/7: {"),
        (404, '"error_code"', "status 404 for"),
        (404, "", "status 404 for"),
    ],
)
def test_a_page_that_is_no_answer_of_a_registry_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, status: int, page: str, says: str
) -> None:
    """Given a proxy that answers with a page of its own, when an id is asked for, then the registry is down, and the id not unknown."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    registry = Registry("main", SchemaRegistry(url="http://registry"))
    answer = httpx.MockTransport(lambda _: httpx.Response(status, text=page))
    registry._client = httpx.Client(transport=answer)
    for ask in (registry.by_id, registry.exists):
        with pytest.raises(Outage, match=says) as told:
            ask(7)
        assert told.value.state == "registry_down"


@pytest.mark.parametrize("page", ['{"message": "sign in"}', "[]", "{}", "7", '[{"a": 1}]', "null"])
def test_json_of_something_else_is_an_outage_too(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    registry = Registry("main", SchemaRegistry(url="http://registry"))
    registry._client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text=page)))
    asked = [lambda: registry.by_id(7), lambda: registry.latest("orders-value")]
    if page != "[]":  # of no version
        asked.append(lambda: registry.versions("orders-value"))
    for ask in asked:
        with pytest.raises(Outage, match="no answer of a registry"):
            ask()


def test_user_and_password_of_the_url_go_into_the_header_and_into_no_error() -> None:
    asked = []
    registry = Registry("main", SchemaRegistry(url="http://me:s%2Fcret@registry/api/"))
    registry._client._transport = httpx.MockTransport(
        lambda request: asked.append(request) or httpx.Response(401)
    )
    with pytest.raises(Stopped) as caught:
        registry.numbers("orders-value")
    assert asked[0].headers["Authorization"] == httpx.BasicAuth("me", "s/cret")._auth_header
    assert str(asked[0].url).startswith("http://registry/api/subjects/")
    assert "cret" not in str(caught.value)
    beside = SchemaRegistry.model_validate({"url": "http://a:b@registry", "basic.auth.user.info": "me:other"})
    assert beside.basic_auth == ("me", "other")
    assert SchemaRegistry(url="http://registry").basic_auth is None


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.certificate.location"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_for_tls_that_cannot_be_used_is_named_with_its_key(
    tmp_path: Path, key: str, content: str | None
) -> None:
    file = tmp_path / "registry.pem"
    if content:
        file.write_text(content)
    block = SchemaRegistry.model_validate({"url": "https://registry", key: str(file)})
    with pytest.raises(Stopped, match=f"schema_registry.eu in platform.yaml: {key} {file}: ") as caught:
        Registry("eu", block)
    assert caught.value.state == "misconfigured"


def test_a_url_that_is_none_is_named_with_its_key() -> None:
    """Given two registries in one URL, as some clients take them, then nothing is asked and nothing listens there."""
    url = "http://sr1:8081,http://sr2:8081"
    with pytest.raises(
        Stopped, match=f"schema_registry.eu in platform.yaml: url {url}: Invalid port"
    ) as caught:
        Registry("eu", SchemaRegistry(url=url))
    assert caught.value.state == "misconfigured"
    assert not listens(url, 1)


@pytest.mark.parametrize("spared", ["", "registry.example"])
def test_a_registry_is_asked_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, spared: str
) -> None:
    """Given a proxy, then whatever is neither spared nor on this machine is asked through it, and is there when the proxy is."""
    monkeypatch.setenv("NO_PROXY", spared)
    monkeypatch.delenv("no_proxy", raising=False)
    with deaf("/") as here, proxy() as (address, asked):
        monkeypatch.setenv("http_proxy", address.removeprefix("http://"))
        registry = Registry("main", SchemaRegistry(url="http://registry.example:8081"))
        if spared:
            assert not listens("http://registry.example:8081", 1)
            assert proxy_of("http://registry.example:8081") is None
        else:
            assert registry.numbers("orders-value") == (1,)
            assert asked == ["http://registry.example:8081/subjects/orders-value/versions?deleted=true"]
            assert listens("http://registry.example:8081", 1)
        assert proxy_of(here) is None


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        ({"grpc_proxy": "http://p:1", "https_proxy": "http://p:2"}, "http://p:1"),
        (
            {"https_proxy": "http://p:2", "http_proxy": "http://p:3", "no_proxy": "other.example"},
            "http://p:2",
        ),
        ({"http_proxy": "http://p:3", "no_proxy": "intra.example, spark.example"}, None),
        ({"http_proxy": "http://p:3", "no_grpc_proxy": "", "no_proxy": "spark.example"}, "http://p:3"),
        ({"grpc_proxy": "", "http_proxy": "http://p:3"}, None),
        ({"https_proxy": "https://p:2", "http_proxy": "http://p:3"}, None),
        ({"HTTPS_PROXY": "http://p:2", "HTTP_PROXY": "http://p:3"}, None),
    ],
)
def test_the_proxy_before_spark_is_the_one_that_grpc_finds(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], way: str | None
) -> None:
    """Given names of proxies in the environment, then Spark Connect is asked for through the one that gRPC's http_proxy_mapper takes."""
    for name in ("grpc_proxy", "no_grpc_proxy", "https_proxy", "http_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert proxy_of("sc://spark.example:15002/;use_ssl=true") == way
    assert proxy_of("sc://127.0.0.1:15002") is None


def test_a_spark_server_behind_a_proxy_is_there_when_the_proxy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with deaf("/") as there:
        monkeypatch.setenv("grpc_proxy", there)
        assert listens("sc://spark.example:15002", 1)


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "socks4://me:cret@proxy:1080")
    with pytest.raises(
        Stopped, match=r"url https://registry, by the proxy socks4://me:\*\*\*@proxy:1080: "
    ) as caught:
        Registry("main", SchemaRegistry(url="https://registry"))
    assert caught.value.state == "misconfigured"


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "answered 403 to http://registry.example"),
        (503, "status 503 for http://registry.example"),
        (0, ""),
    ],
)
def test_what_a_proxy_answers_names_the_proxy_and_how_to_spare_it(
    monkeypatch: pytest.MonkeyPatch, status: int, says: str
) -> None:
    """Given a proxy that refuses, or does not reach the registry, or is not there, then one is told that it was asked, and not its password."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with proxy(status) as (address, _):
        port = address.rpartition(":")[2] if status else "1"
        monkeypatch.setenv("http_proxy", f"http://me:cret@127.0.0.1:{port}")
        registry = Registry("main", SchemaRegistry(url="http://registry.example:8081"))
        named = re.escape(f"(by the proxy http://me:***@127.0.0.1:{port}; NO_PROXY spares it)")
        with pytest.raises(Stopped if status == 403 else Outage, match=f"{says}.*{named}") as told:
            registry.numbers("orders-value")
        with pytest.raises(Outage, match=named):
            registry.request("GET", "/subjects")
    assert told.value.state == ("permission_denied" if status == 403 else "registry_down")


@contextmanager
def proxy(status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the URLs that it was asked for; whatever they are, it answers with a list."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"[1]")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with served(Answers) as address:
        yield address, asked


@contextmanager
def deaf(path: str) -> Iterator[str]:
    """A registry without subjects that accepts whoever comes and says nothing to those who ask for `path…`."""
    done = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith(path):
                done.wait()
                return
            self.send_response(404)
            self.end_headers()
            self.wfile.write(json.dumps(UNKNOWN).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with served(Answers) as address:
        try:
            yield address
        finally:
            done.set()


@contextmanager
def served(answers: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def impatient(url: str, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(registry_module, "TIMEOUT", 0.3)
    monkeypatch.setattr(registry_module, "BRIEF", 0.3)
    return Registry("main", SchemaRegistry(url=url))


def test_a_registry_that_does_not_answer_holds_up_the_first_table_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a registry that accepts and says nothing, when one run looks at 300 tables, then it waits once, not 300 times; and it hears when the registry is back."""
    with deaf("/") as url:
        registry, took = impatient(url, monkeypatch), list[float]()
        for number in range(300):
            began = time.monotonic()
            with pytest.raises(Outage, match="timed out"):
                registry.numbers(f"t{number}-value")
            took.append(time.monotonic() - began)
    assert took[0] > 0.9
    assert sum(took[1:]) < took[0]
    with deaf("/nothing") as back:
        registry._url = back
        time.sleep(took[0])
        assert registry.numbers("t0-value") == ()


def test_a_subject_that_is_slow_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with deaf("/subjects/slow") as url:
        registry = impatient(url, monkeypatch)
        with pytest.raises(Outage):
            registry.numbers("slow-value")
        assert registry.numbers("orders-value") == ()
