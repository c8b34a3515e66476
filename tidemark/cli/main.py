"""`tidemark`: the command line. Every command imports what it needs when it is called, so that --help is quick."""

import atexit
import gc
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.border import Commands
from tidemark.cli.lazy_services import Services
from tidemark.cli.options import AnyJson, AsJson, By, DryRun, Noted, Reason, Table, Tables, Version
from tidemark.domain.states import Acceptance

# A command begins with importing 2,500 modules, none of it garbage: looking for some took a tenth of a short run.
gc.set_threshold(50_000)
# At its end Python does so three times over, for a second in all: what is left goes with the process.
atexit.register(gc.freeze)

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Kafka topics as governed Apache Iceberg tables.",
    epilog="Exit codes: 0 fine, 1 a finding, 2 bad use or configuration, 130 interrupted. --debug shows tracebacks.",
)
app.add_typer(
    typer.Typer(
        cls=Services, help="The embedded stack: Kafka, schema registry, Spark Connect.", no_args_is_help=True
    ),
    name="services",
)


@app.callback()
def tidemark(*, as_json: AnyJson = False, version: Version = False) -> None:
    """Stand before every command; the help of `app` is what is shown."""


@app.command()
def demo(
    *,
    script: Annotated[bool, typer.Option("--script", help="Run the tour by itself, then stop.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything running after the script.")] = False,
) -> None:
    """Everything from nothing: embedded stack, live sample traffic, Dagster with the sensor on, a guided tour."""
    from tidemark.cli.demo.show import demo as command  # noqa: PLC0415

    command(script=script, keep=keep)


@app.command()
def dev() -> None:
    """The same for your own contracts, without sample traffic."""
    from tidemark.cli.demo.show import dev as command  # noqa: PLC0415

    command()


@app.command()
def check(*, as_json: AsJson = False) -> None:
    """Validate platform file and contracts offline."""
    from tidemark.cli.check import check as command  # noqa: PLC0415

    command(as_json=as_json)


@app.command()
def run(
    tables: Tables = None,
    *,
    reason: Noted = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Run tables through Dagster until they have caught up with the end offsets seen at start."""
    from tidemark.cli.run import run as command  # noqa: PLC0415

    command(tables or [], by, reason, dry_run=dry_run, as_json=as_json)


@app.command()
def plan(
    tables: Tables = None,
    *,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Decode the last N records of each topic, too.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """What would change about the tables, and its verdict; exit 1 when something awaits review."""
    from tidemark.cli.plan import plan as command  # noqa: PLC0415

    command(tables or [], sample=sample, as_json=as_json)


@app.command()
def schema(table: Table, *, as_json: AsJson = False) -> None:
    """A table's columns with ids and comments, and the history of its changes: plan, approver, run, time."""
    from tidemark.cli.schema import schema as command  # noqa: PLC0415

    command(table, as_json=as_json)


@app.command()
def new(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic on the cluster.")],
    *,
    cluster: Annotated[str | None, typer.Option(help="A Kafka cluster; = that of the defaults.")] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Records to look at.")] = 1000,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a contract from the registry and a sample, and say whether the topic fits."""
    from tidemark.cli.new import new as command  # noqa: PLC0415

    command(topic, cluster=cluster, sample=sample, dry_run=dry_run, as_json=as_json)


@app.command()
def status(
    tables: Tables = None,
    *,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Quarantined rows by cause.")] = False,
    not_fresh: Annotated[bool, typer.Option("--not-fresh", help="Only tables that are not fresh.")] = False,
    as_json: AsJson = False,
) -> None:
    """Worst first: state, lag, both clocks, retention headroom, files, quarantine, and what to do."""
    from tidemark.cli import status as command  # noqa: PLC0415

    if quarantine and not_fresh:
        raise typer.BadParameter("say either --quarantine or --not-fresh")
    if quarantine:
        command.quarantine(tables or [], as_json=as_json)
    else:
        command.status(tables or [], not_fresh=not_fresh, as_json=as_json)


@app.command()
def reconcile(table: Table, *, as_json: AsJson = False) -> None:
    """Count Kafka's committed records against rows and quarantine, offset by offset."""
    from tidemark.cli.reconcile import reconcile as command  # noqa: PLC0415

    command(table, as_json=as_json)


@app.command()
def compare(  # noqa: PLR0913 - what is compared, and how
    table: Table,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Any table of the catalog.")],
    *,
    key: Annotated[list[str] | None, typer.Option("--key", help="A key column; may be repeated.")] = None,
    by: Annotated[str, typer.Option("--by", help="Figures per value of a column, of a time per day.")] = "",
    since: Annotated[str, typer.Option("--from", help="ISO 8601: only rows with this --by or later.")] = "",
    until: Annotated[str, typer.Option("--to", help="ISO 8601: only rows with an earlier --by.")] = "",
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="A column to leave out.")] = None,
    sample: Annotated[int, typer.Option("--sample", min=0, help="Differing keys to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Two tables side by side: rows, keys, checksums, freshness, sample differences; exit 1 when they differ."""
    from tidemark.cli.compare import compare as command  # noqa: PLC0415

    command(table, other, (key or [], by, since, until, ignore or [], sample), as_json=as_json)


@app.command()
def report(
    tables: Tables = None,
    *,
    out: Annotated[Path | None, typer.Option("--out", help="The folder of the page (= review).")] = None,
    as_json: AsJson = False,
) -> None:
    """The governance review pack: one HTML page that needs no network, or --json."""
    from tidemark.cli.report import report as command  # noqa: PLC0415

    command(tables or [], out, as_json=as_json)


@app.command()
def metrics(
    tables: Tables = None,
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1.")] = 9464,
    once: Annotated[bool, typer.Option("--once", help="Print the figures and stop.")] = False,
) -> None:
    """The figures of status for Prometheus, at /metrics."""
    from tidemark.cli.metrics import metrics as command  # noqa: PLC0415

    command(tables or [], port, once=once)


@app.command()
def pause(
    table: Table, *, reason: Reason = "", by: By = "", dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Let nothing be ingested into a table until it is resumed."""
    from tidemark.cli.change import change  # noqa: PLC0415

    change("pause", {"table": table, "reason": reason, "by": by, "dry_run": dry_run}, as_json=as_json)


@app.command()
def resume(
    table: Table, *, reason: Reason = "", by: By = "", dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Undo `pause`; the next run continues where the ledger ends."""
    from tidemark.cli.change import change  # noqa: PLC0415

    change("resume", {"table": table, "reason": reason, "by": by, "dry_run": dry_run}, as_json=as_json)


@app.command()
def approve(
    table: Table,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The id that `tidemark plan` shows.")],
    *,
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a parked schema change through; refused when --by is not among the contract's approvers."""
    from tidemark.cli.change import change  # noqa: PLC0415

    arguments = {"table": table, "plan": plan, "reason": reason, "by": by, "dry_run": dry_run}
    change("approve", arguments, as_json=as_json)


@app.command()
def accept(  # noqa: PLR0913 - one option for each stop state
    table: Table,
    *,
    reason: Reason = "",
    first_load: Annotated[bool, typer.Option("--first-load", help="Load a lost table again.")] = False,
    new_epoch: Annotated[
        bool, typer.Option("--new-epoch", help="The topic is another one now: begin a new epoch.")
    ] = False,
    record_gap: Annotated[
        bool, typer.Option("--record-gap", help="Offsets that Kafka deleted unread are lost.")
    ] = False,
    quarantine_batch: Annotated[
        bool, typer.Option("--quarantine-batch", help="The waiting batch may go to the quarantine.")
    ] = False,
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Resolve a stop state explicitly; it is recorded who did, and why."""
    from tidemark.cli.change import change  # noqa: PLC0415

    action = _only_one(
        {
            "first-load": first_load,
            "new-epoch": new_epoch,
            "record-gap": record_gap,
            "quarantine-batch": quarantine_batch,
        }
    )
    arguments = {"table": table, "reason": reason, "by": by, "dry_run": dry_run, "action": action}
    change("accept", arguments, as_json=as_json)


@app.command()
def maintain(
    table: Table,
    *,
    compaction: Annotated[bool, typer.Option("--compaction", help="Small files and deleted rows.")] = False,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Snapshots, and rows beyond retention.")
    ] = False,
    orphans: Annotated[bool, typer.Option("--orphans", help="Files that no snapshot names.")] = False,
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Maintain a table and its companions now; everything when no kind is named."""
    from tidemark.cli.change import change  # noqa: PLC0415

    arguments = {"table": table, "reason": reason, "by": by, "dry_run": dry_run}
    kinds = {"compaction": compaction, "snapshots": snapshots, "orphans": orphans}
    change("maintain", {**arguments, **kinds}, as_json=as_json)


@app.command()
def replay(  # noqa: PLR0913 - two replays, each with its own options
    table: Table,
    *,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Decode quarantined records again.")
    ] = False,
    cause: Annotated[str, typer.Option("--cause", help="Only quarantined records of this cause.")] = "",
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="The Kafka partition.")] = None,
    first: Annotated[int | None, typer.Option("--from", min=0, help="The first offset.")] = None,
    upto: Annotated[int | None, typer.Option("--to", min=0, help="The offset after the last.")] = None,
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move quarantined records that fit today into the table, or replace the rows of a range; exactly once."""
    from tidemark.cli.recovery import replay as command  # noqa: PLC0415

    signed = {"reason": reason, "by": by, "dry_run": dry_run}
    command(table, (partition, first, upto), signed, quarantine=quarantine, cause=cause, as_json=as_json)


@app.command()
def rollback(
    table: Table,
    *,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="A snapshot on the way to main.")] = None,
    before: Annotated[str, typer.Option("--before", help="ISO 8601: the newest state before then.")] = "",
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take table, offsets and quarantine back together; leaves the table paused, names what is stale."""
    from tidemark.cli.recovery import rollback as command  # noqa: PLC0415

    signed = {"reason": reason, "by": by, "dry_run": dry_run}
    command(table, snapshot, before, signed, as_json=as_json)


@app.command()
def backfill(  # noqa: PLR0913 - a source, a time, a pace, and how far it goes
    table: Table,
    *,
    since: Annotated[str, typer.Option("--from", help="ISO 8601; to go on, both may be left out.")] = "",
    until: Annotated[str, typer.Option("--to", help="ISO 8601, not included.")] = "",
    source: Annotated[
        str, typer.Option("--source", help="topic:[CLUSTER/]NAME, table:NAMESPACE.NAME or parquet:PATH.")
    ] = "",
    time_column: Annotated[str, typer.Option("--time-column", help="Of rows: = event_time.")] = "",
    window: Annotated[str, typer.Option("--window", help="Of rows: what one commit holds; = 1d.")] = "",
    max_records: Annotated[int | None, typer.Option("--max-records", min=1, help="Of one commit.")] = None,
    rate: Annotated[float, typer.Option("--rate", min=0, help="At most so many a second; 0: any.")] = 0.0,
    cutover: Annotated[bool, typer.Option("--cutover", help="Publish when all is loaded.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Drop what was loaded.")] = False,
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Load history beside the live ingest, compare it, and publish it in one commit with a cutover time."""
    from tidemark.cli.recovery import backfill as command  # noqa: PLC0415

    signed = {"reason": reason, "by": by, "dry_run": dry_run}
    steps = {"cutover": cutover, "abort": abort}
    options = {"source": source, "time_column": time_column, "rate": rate, **steps}
    command(table, (since, until, window, max_records), {**signed, **options}, as_json=as_json)


@app.command()
def drill(
    *,
    scenario: Annotated[
        list[str] | None,
        typer.Option("--scenario", help="kill, catalog, registry, poison, schema, replay, rollback; = all."),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="A Kafka cluster of platform.yaml.")] = "main",
    reason: Reason = "",
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Rehearse failures on a scratch topic and table of this platform; real tables are never touched."""
    from tidemark.cli.drill import drill as command  # noqa: PLC0415

    command(scenario or [], cluster, {"reason": reason, "by": by, "dry_run": dry_run}, as_json=as_json)


@app.command()
def where(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic that a contract reads.")],
    place: Annotated[str | None, typer.Argument(metavar="[P:O]", help="PARTITION:OFFSET")] = None,
    *,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The Kafka key, as text or as 0x…, which is looked for both ways."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The fate of a record, and where a row comes from."""
    from tidemark.cli.where import where as command  # noqa: PLC0415

    command(topic, place, key, as_json=as_json)


def _only_one(flags: dict[Acceptance, bool]) -> Acceptance:
    chosen = [action for action, given in flags.items() if given]
    if len(chosen) != 1:
        raise typer.BadParameter(f"say exactly one of {', '.join(f'--{action}' for action in flags)}")
    return chosen[0]
