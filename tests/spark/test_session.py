"""A session: what platform.yaml sets on it, what the server refuses of that, and how long the server keeps it."""

import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from uuid import uuid4

import pytest
from pyspark.sql.connect.session import SparkSession

import tidemark.engine.access.spark
from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.config.platform import Spark
from tidemark.domain.errors import Stopped
from tidemark.engine.access.spark import begin_session, configure, connect, default_session, of_session
from tidemark.services import spark as server
from tidemark.services.catalog import LocalCatalog
from tidemark.services.java import find_java
from tidemark.services.launch import Launch
from tidemark.services.ports import Ports
from tidemark.services.progress import silent
from tidemark.services.service import Place

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("key", "shown"), [("spark.authenticate.secret", "***"), ("spark.executor.memory", SECRET)]
)
def test_a_setting_that_the_server_refuses_is_named_and_a_secret_is_not_shown(stack, key, shown):
    session = connect(stack["spark"]["remote"])
    catalog = SimpleNamespace(name="lake", spark_conf=dict)
    platform = SimpleNamespace(catalog=catalog, spark=Spark(conf={key: SECRET}))
    with pytest.raises(Stopped, match=rf"the server refuses {key}: ") as caught:
        configure(session, platform, {})
    session.stop()
    told = "".join(traceback.format_exception(caught.value))
    assert (SECRET in told) == (shown == SECRET)
    assert f"{key}: {shown}" in told


@pytest.mark.filterwarnings("ignore:The SQL config 'spark.sql.parser.escapedStringLiterals'")
def test_texts_are_read_as_they_are_written_whatever_the_server_was_told(stack):
    """Given a server on which a backslash is a letter of a text, when a session is ours, then a quote in a text does not end it."""
    session, said = connect(stack["spark"]["remote"]), "it's a \\' of ${a}"
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    platform = SimpleNamespace(catalog=SimpleNamespace(name="lake", spark_conf=dict), spark=Spark(conf={}))
    configure(session, platform, {})
    try:
        assert session.sql(f"SELECT {quoted_text(said)}").first()[0] == said
    finally:
        session.stop()


def test_a_session_keeps_no_plan_whatever_the_server_was_told(stack):
    """Given a server that keeps the plans of frames, and with them tables as they were, when a session is ours, then it keeps none."""
    session, key = connect(stack["spark"]["remote"]), "spark.connect.session.planCache.enabled"
    session.conf.set(key, "true")
    configure(
        session,
        SimpleNamespace(catalog=SimpleNamespace(name="lake", spark_conf=dict), spark=Spark(conf={})),
        {},
    )
    assert session.conf.get(key) == "false"
    session.stop()


def test_a_session_that_another_process_is_to_find_has_the_catalog_that_its_server_was_started_without(stack):
    """Given a catalog that the server does not know, when a session is opened with it for somebody else, then he finds it there, with the settings of platform.yaml, and no other session does."""
    remote, session_id = stack["spark"]["remote"], str(uuid4())
    (warehouse,) = {value for key, value in stack["catalog"]["properties"].items() if key == "warehouse"}
    prefix = "spark.sql.catalog.elsewhere"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": warehouse,
    }
    catalog = SimpleNamespace(name="elsewhere", spark_conf=lambda: settings)
    spark = Spark(conf={"spark.sql.shuffle.partitions": "7"})
    begin_session(remote, session_id, SimpleNamespace(catalog=catalog, spark=spark))
    other, found = connect(remote), connect(of_session(remote, session_id))
    with pytest.raises(Exception, match="elsewhere"):
        other.sql("SHOW NAMESPACES IN elsewhere").collect()
    found.sql("SHOW NAMESPACES IN elsewhere").collect()
    assert found.conf.get("spark.sql.shuffle.partitions") == "7"
    assert found.session_id == session_id
    for each in (other, found):
        each.stop()


def test_a_default_session_is_kept_by_a_server_that_forgets_idle_ones(tmp_path, always_stopped, monkeypatch):
    """Given a server that closes a session after two seconds without a word, when one is the default for longer, then it still answers, and none else does."""
    monkeypatch.setattr(tidemark.engine.access.spark, "HEARD_EVERY", 0.5)
    timeouts = {"defaultSessionTimeout": "2s", "maintenanceInterval": "500ms"}
    forgetful = server.Spark(conf={f"spark.connect.session.manager.{k}": v for k, v in timeouts.items()})
    place = Place(tmp_path, find_java(), Ports(tmp_path / "ports.json"))
    with always_stopped(tmp_path):
        LocalCatalog(tmp_path).create()
        Launch((forgetful,), place, silent).run()
        idle, kept = connect(forgetful.remote(place)), connect(forgetful.remote(place))
        assert [idle.range(1).count(), kept.range(1).count()] == [1, 1], "the server knows both"
        before = SparkSession._default_session
        with default_session(kept):
            time.sleep(6)
            with ThreadPoolExecutor(1) as elsewhere:
                assert elsewhere.submit(SparkSession.builder.getOrCreate).result() is kept
            assert kept.range(1).count() == 1
        assert SparkSession._default_session is before
        with pytest.raises(Exception, match="SESSION_CLOSED"):
            idle.range(1).count()
        kept.stop()
        idle.stop()


def test_code_that_one_session_has_compiled_serves_the_next(stack):
    """Given a plan whose code is generated, when another session has the same plan, then nothing is compiled for it."""
    asked = "java_method('org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator', 'compileTime')"
    plan = "SELECT sum(id * 7919 + {number}) AS n FROM range(1000) WHERE id % 3 = 1"
    number = uuid4().int % 1_000_000

    def compiled_for(number: int) -> int:
        session = connect(stack["spark"]["remote"])
        before = int(session.sql(f"SELECT {asked}").first()[0])
        session.sql(plan.format(number=number)).collect()
        after = int(session.sql(f"SELECT {asked}").first()[0])
        session.stop()
        return after - before

    assert compiled_for(number) > 0, "code was generated"
    assert compiled_for(number) == 0
