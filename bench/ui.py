"""How Tidemark stands with many contracts: loading the definitions, a tick of the sensor, Dagster's pages in a browser.

    python bench/ui.py --contracts 300

Uses the embedded stack of TIDEMARK_HOME for Kafka (started when it is down), a contracts folder of its own with as many
topics, and Dagster with that folder. Prints one line per figure; each is the median of three, after one to warm up. The
graph is kept as a picture, build/ui-graph.png.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, sync_playwright

from assets.runs.statuses import UNDER_WAY
from resources.lake import LakeResource, places_now
from tidemark.cli.dagster_services import DagsterServices
from tidemark.cli.in_dagster import dagster_instance
from tidemark.engine.config.configuration import Places
from tidemark.services.stack import Stack

CHROMIUM = "/usr/bin/chromium"
NAMESPACES = 10
ROUNDS = 3
PATIENCE = 120_000
QUIET = 20
"""Seconds without a run until the lake counts as quiet."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contracts", type=int, default=300)
    count = parser.parse_args().contracts
    home = Path(os.environ.get("TIDEMARK_HOME", ".tidemark")).absolute()
    status = Stack(home).up()
    with tempfile.TemporaryDirectory() as folder:
        where = Places(None, written(Path(folder), count), home)
        os.environ |= {"TIDEMARK_HOME": str(home), "TIDEMARK_CONTRACTS": str(where.contracts_dir)}
        topics(status["kafka"]["bootstrap.servers"], count)
        told("definitions load", median(loads))
        told("sensor tick", ticks())
        services = DagsterServices(where)
        try:
            services.up()
            settled()
            pages(services.url)
        finally:
            services.down()


def written(folder: Path, count: int) -> Path:
    """A folder with `count` contracts in some namespaces."""
    for number in range(count):
        table = f"ns{number % NAMESPACES}.table_{number}"
        text = f"topic: bench_ui_{number}\ntable: {table}\nowners: {{data: team:bench}}\n"
        (folder / f"table_{number}.yaml").write_text(text, encoding="utf-8")
    return folder


def topics(bootstrap: str, count: int) -> None:
    """Make the topics that are not there yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    there = admin.list_topics(timeout=30).topics
    wanted = [f"bench_ui_{number}" for number in range(count)]
    new = [NewTopic(name, 1, 1) for name in wanted if name not in there]
    for future in (admin.create_topics(new, request_timeout=120) if new else {}).values():
        future.result(120)


def loads() -> None:
    """A process that loads the definitions, imports included."""
    subprocess.run([sys.executable, "-c", "import orchestration.definitions"], check=True)


def ticks() -> float:
    """Ticks of the lag sensor in this process, the cursor kept."""
    from orchestration.definitions import defs  # noqa: PLC0415 - reads the environment as it is imported

    sensor = defs.get_repository_def().get_sensor_def("kafka_lag")
    lake = LakeResource.at(places_now())
    cursor: str | None = None
    with dg.instance_for_test() as instance:

        def tick() -> None:
            nonlocal cursor
            with dg.build_sensor_context(
                instance=instance, cursor=cursor, definitions=defs, resources={"lake": lake}
            ) as context:
                cursor = sensor.evaluate_tick(context).cursor

        return median(tick)


def settled() -> None:
    """Wait until the first loads of all tables are over: pages are measured over a lake that is quiet."""
    under_way = dg.RunsFilter(statuses=list(UNDER_WAY))
    quiet = 0
    with dagster_instance() as instance:
        while quiet < QUIET:
            quiet = 0 if instance.get_runs_count(under_way) else quiet + 1
            time.sleep(1)


def pages(url: str) -> None:
    """Until what a person came for is there to be read."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE)
        table, group = "table_17", "ns7"
        told("catalog", median(lambda: visit(page, f"{url}/assets", "text=ns0")))
        graph = f"{url}/locations/tidemark/asset-groups/{group}/lineage"
        told("group graph", median(lambda: visit(page, graph, "text=/^table_[0-9]+$/")))
        page.wait_for_timeout(2_000)
        page.screenshot(path=picture())
        told("asset page", median(lambda: visit(page, f"{url}/assets/{group}/{table}", "text=/^bench$/")))
        browser.close()


def picture() -> Path:
    """Where the look at the graph is kept."""
    Path("build").mkdir(exist_ok=True)
    return Path("build/ui-graph.png")


def visit(page: Page, address: str, wanted: str) -> None:
    """Open an address afresh and wait for what is wanted to be seen."""
    page.goto(address)
    page.locator(wanted).first.wait_for()


def median(do: Callable[[], object]) -> float:
    """Seconds."""
    taken = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        do()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def told(what: str, seconds: float) -> None:
    """One figure, with the load of the machine beside it."""
    print(f"{what:20} {seconds:7.2f} s   (load {os.getloadavg()[0]:.1f})", flush=True)


if __name__ == "__main__":
    main()
