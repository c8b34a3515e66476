"""Tables that change hands: renamed in the contract, taken over from someone else, released by a contract that is gone.

A table belongs to the topic that its own ledger names. When a contract's table does not exist, and a table of the same
topic exists that the same contract file has made and no contract names any more, the contract has renamed it: loading
it anew would lose its history. Another file is another table, for others may share topic and catalog.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator

from pyiceberg.catalog import Catalog

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.types import Struct, table_columns
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import CURRENT, DELETED, QUARANTINE, SHADOW
from tidemark.domain.errors import Outage, SchemaUnsupported, Stopped
from tidemark.domain.ledger.backfill import BACKFILL
from tidemark.domain.ledger.guard import another_cluster
from tidemark.domain.plan.contract_record import EVENT, RECORD, remembered
from tidemark.domain.plan.meanings import known
from tidemark.domain.plan.schema_plan import Change, SchemaPlan
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.namespace import listed, make_namespace
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import OWNED, UPSERT_OF, TableState, load, read_state, upsert_of
from tidemark.engine.table.first_load import CLUSTER, DECLARED_IN, contract_file
from tidemark.engine.table.folder import folder_fault, give_up, taken_folder
from tidemark.engine.table.properties import set_properties

PAUSE = 1.0
"""Seconds before tables that did not answer are asked again: one of them may be what the contract has renamed."""
PASSED_OVER = 60.0
"""Seconds for which a table that did not answer twice is asked no more: each of many new contracts would wait."""


def renaming(lake: Lake, contract: Contract) -> SchemaPlan | None:
    """The plan to rename the table that this contract used to make; None when there is none."""
    declared = contract_file(lake, contract)
    former = [
        each for each in (unclaimed(lake, contract) if declared else ()) if _same_topic(lake, each, contract)
    ]
    if not former:
        return None
    names = ", ".join(each.table for each in former)
    kept = "ledger and history" if former[0].ledger else "history (its ledger is gone)"
    if len(former) > 1:
        reason = (
            f"several tables of topic {contract.topic} have no contract: {names}. Name the one that is meant"
        )
        return SchemaPlan(
            contract.table, (Change("rename", (), names, contract.table, "impossible", reason),)
        )
    hindered = _needed_name(contract, names) or _two_quarantines(lake, contract, names)
    if hindered:
        return SchemaPlan(
            contract.table, (Change("rename", (), names, contract.table, "impossible", hindered),)
        )
    others = [f"{a} to {b}" for a, b in _with_it(lake, contract, former[0]) if a != b]
    along = f", and {', '.join(others)}" if others else ""
    anew = f". To load {contract.table} anew instead: tidemark accept {contract.table} --first-load"
    reason = (
        f"{names} holds topic {contract.topic} and this contract no longer names it; approved, it is renamed with its "
        f"{kept}{along}{'' if taken_folder(lake, contract.table) else anew}"
    )
    return SchemaPlan(contract.table, (Change("rename", (), names, contract.table, "review", reason),))


def renamed(lake: Lake, contract: Contract, plan: SchemaPlan) -> dict[str, str]:
    """Old name -> new name of all that `rename` is going to rename."""
    old = str(plan.changes[0].old)
    return {**dict(_with_it(lake, contract, lake.state(old, ledger=False))), old: contract.table}


def rename(lake: Lake, contract: Contract, plan: SchemaPlan) -> None:
    """Rename the table and what goes with it. The table itself is last: until then the plan can be approved again."""
    [change] = plan.changes
    old = str(change.old)
    catalog = lake.catalog
    for source, target in _with_it(lake, contract, lake.state(old, ledger=False)):
        _move(catalog, source, target)
        if upsert_of(catalog, target) == old:
            set_properties(lake, target, {UPSERT_OF: contract.table})
    _remember_upsert(lake, contract, old)
    _move(catalog, old, contract.table)


def _needed_name(contract: Contract, former: str) -> str:
    """Why the table cannot be renamed: its name is to be the upsert table's. Empty if it is not."""
    if not (contract.upsert and contract.upsert.table == former):
        return ""
    return (
        f"{former} holds topic {contract.topic} and this contract makes it its upsert table: name another "
        f"`upsert.table`, and {former} can be renamed to {contract.table} with its rows"
    )


def _two_quarantines(lake: Lake, contract: Contract, former: str) -> str:
    """Why the table cannot be renamed: besides its quarantine there is one of the new name. Empty if there is not."""
    old, new = former + QUARANTINE, contract.quarantine_table
    mine = old.lower() not in {name.lower() for name in _names(lake.configuration)}
    if mine and lake.catalog.table_exists(old) and lake.catalog.table_exists(new):
        return (
            f"{old} and {new} both exist, and a table has one quarantine: move the rows of {old} into {new} by "
            f"INSERT INTO, or drop the one that nobody needs; then ask for the plan again"
        )
    return ""


def _move(catalog: Catalog, source: str, target: str) -> None:
    if catalog.table_exists(source) and not catalog.table_exists(target):
        make_namespace(catalog, target.partition(".")[0])
        give_up(catalog, source, target)
        catalog.rename_table(source, target)


def _with_it(lake: Lake, contract: Contract, former: TableState) -> list[tuple[str, str]]:
    """(old name, new name) of what is renamed before the table `former`, as far as no contract names it.

    Equal names: an upsert table that keeps its name or got it from a dead run; its UPSERT_OF is still to be set.
    """
    catalog, taken = lake.catalog, {name.lower() for name in _names(lake.configuration)}
    moves = [
        (former.table + QUARANTINE, contract.quarantine_table),
        *_backfill(catalog, contract, former),
        *_upsert(catalog, contract, former),
    ]
    return [
        (source, target)
        for source, target in moves
        if source == target
        or (
            (source.lower() not in taken or source.lower() == target.lower())
            and catalog.table_exists(source)
            and not catalog.table_exists(target)
        )
    ]


def _backfill(catalog: Catalog, contract: Contract, former: TableState) -> list[tuple[str, str]]:
    """The same of what a backfill under way has loaded, its quarantine first; nothing that only has such a name."""
    names = [(former.table + SHADOW + end, contract.table + SHADOW + end) for end in (QUARANTINE, "")]
    found = [(source, target, load(catalog, source)) for source, target in names]
    return [(source, target) for source, target, table in found if table and BACKFILL in table.properties]


def _upsert(catalog: Catalog, contract: Contract, former: TableState) -> list[tuple[str, str]]:
    """The same of the upsert table, which says itself whose it is, and of its memory of deletes, which goes first."""
    now = contract.upsert.table if contract.upsert else None
    if now is None:
        return []
    last = remembered(former.properties).get("upsert.table")
    names = [now] if catalog.table_exists(now) else [each for each in (last, former.table + CURRENT) if each]
    mine = next((each for each in names if upsert_of(catalog, each) == former.table), None)
    if mine is None:
        return []
    memories = [each + DELETED for each in (now, mine)]
    memory = [(each, memories[0]) for each in memories if upsert_of(catalog, each) == former.table]
    return [*memory[:1], (mine, now)]


def _remember_upsert(lake: Lake, contract: Contract, old: str) -> None:
    """Let the table know its upsert table by the new name, or the next run takes that for another one."""
    before = remembered(lake.state(old, ledger=False).properties)
    now = contract.upsert.table if contract.upsert else None
    if now and before.get("upsert.table", now) != now and upsert_of(lake.catalog, now) == contract.table:
        set_properties(lake, old, {RECORD: json.dumps({**before, "upsert.table": now}, sort_keys=True)})


def why_not_anew(lake: Lake, contract: Contract) -> Stopped | None:
    """Why a table that is not there is not made: it was only renamed, or another table's files are in its folder."""
    moved = renaming(lake, contract)
    if moved is None:
        return folder_fault(lake, contract.table)
    why = "; ".join(change.reason for change in moved.changes)
    return Stopped("schema_review", contract.table, f"Plan {moved.id} waits. {why}", plan=moved.id)


def half_renamed(lake: Lake, contract: Contract) -> Stopped | None:
    """Why nothing is written to a table of which a rename that died has moved a part: its quarantine or upsert table.

    A new quarantine in its place would keep records that nobody finds once the rename is completed.
    """
    parts = [
        contract.quarantine_table,
        *([contract.upsert.table] if contract.upsert and contract.upsert.table else []),
    ]
    for part in parts:
        if (now := taken_folder(lake, part)) is not None and not lake.catalog.table_exists(part):
            stopped = Stopped(
                "schema_review",
                contract.table,
                f"A rename of it is half done: {part} is {now} by now, {contract.table} still has its name.",
                topic=contract.topic,
            )
            stopped.next_step = (
                "give the contract the `table` that was approved, and approve its plan again (tidemark plan); then "
                f"it can be named {contract.table} again the same way"
            )
            return stopped
    return None


def adoption(contract: Contract, state: TableState, wanted: Struct | None) -> Change | None:
    """Taking over a table that Tidemark did not make: its rows and its layout stay, its columns must fit."""
    if state.owned:
        return None
    found, needs = known(state.columns or Struct(()), state.properties), table_columns(wanted or Struct(()))
    try:
        lacks = [f"{d.dotted}: {d.kind} (table {d.ends[0]}, topic {d.ends[1]})" for d in covers(found, needs)]
    except SchemaUnsupported as error:
        lacks = [str(error)]
    begins = "it goes on where its ledger ends" if state.ledger else "the first load begins at ingest.start"
    return Change(
        "adopt",
        (),
        "not said to be of a topic" if state.ledger else "not made by Tidemark",
        f"topic {contract.topic}",
        "impossible" if lacks else "apply",
        f"its columns do not fit: {'; '.join(lacks)}"
        if lacks
        else f"{state.live_rows} rows stay as they are; {begins}",
    )


def releases(lake: Lake) -> list[SchemaPlan]:
    """Tables that no contract names any more: nothing writes or maintains them, and nothing is dropped."""
    taken = {
        str(c.old)
        for each in lake.configuration.contracts
        for c in _rename_of(lake, each)
        if c.verdict == "review"
    }
    reason = "no contract names it: it stays as it is, is not written and not maintained any more"
    return [
        SchemaPlan(
            each.table,
            (Change("release", (), f"topic {each.properties[OWNED]}", None, "apply", reason),),
        )
        for each in unclaimed(lake)
        if each.table not in taken
    ]


def unclaimed(lake: Lake, contract: Contract | None = None) -> Iterator[TableState]:
    """Append tables of Tidemark that no contract of this configuration names; the shadow of a backfill is none.

    `contract`: only those of its file, the name of its upsert table included. Which file has made a table is
    looked at once, or the first loads of many topics would each read all foreign tables of the catalog.

    Raises:
        Stopped, Outage: one cannot be read that may be what `contract` has made before (`_may_be_its`).
    """
    unread, dead = list[str](), list[str]()
    names = _names(lake.configuration)
    if contract is not None and contract.upsert and contract.upsert.table:
        names.discard(contract.upsert.table)
    yield from _read(lake, _others(lake.catalog, names), contract, unread)
    if unread and contract is not None:
        time.sleep(PAUSE)
        yield from _read(lake, unread, contract, dead)
        lake.passed_over.update(dict.fromkeys(dead, time.monotonic() + PASSED_OVER))


def _read(
    lake: Lake, tables: Iterable[str], contract: Contract | None, unread: list[str]
) -> Iterator[TableState]:
    """Those of `tables` that are meant; `unread` gets what does not answer and stops nobody."""
    made_by = contract_file(lake, contract) if contract else None
    for table in tables:
        if made_by is not None and lake.made_by.get(table, made_by) != made_by:
            continue
        if time.monotonic() < lake.passed_over.get(table, 0.0):
            continue
        try:
            with translated(table):
                state = read_state(lake.catalog, table, ledger=False)
        except (Stopped, Outage) as error:
            if contract is not None and _may_be_its(lake, contract, table, error):
                error.next_step += (
                    "; if it is gone for good, drop it from the catalog, or load the table that takes its place anew: "
                    "tidemark accept TABLE --first-load --reason …"
                )
                raise
            if isinstance(error, Outage):
                unread.append(table)
            continue
        lake.made_by[table] = state.properties.get(DECLARED_IN, "")
        if made_by is not None and lake.made_by[table] != made_by:
            continue
        appended = state.ledger is not None or (lake.made_by[table] and state.ledger_lost)
        if state.owned and appended and BACKFILL not in state.properties:
            yield state


def _may_be_its(lake: Lake, contract: Contract, table: str, error: Stopped | Outage) -> bool:
    """Of a table that is unread: whether it may hold the contract's topic, which is told where runs have loaded it.

    Of others, as marts, nobody can say: one that does not answer may be it where contracts have tables or runs know
    it, one without rights only where it was read before.
    """
    loaded_from = lake.configuration.loaded.get(table)
    if loaded_from is not None:
        cluster, topic = loaded_from  # its block may have another name now
        same = cluster == contract.cluster or cluster not in lake.platform.kafka
        return same and topic == contract.topic
    used = {name.partition(".")[0].lower() for name in _names(lake.configuration)}
    silent = isinstance(error, Outage)
    return table in lake.made_by or (
        silent and (table.partition(".")[0].lower() in used or lake.loaded(table))
    )


def _others(catalog: Catalog, ours: Collection[str]) -> list[str]:
    """The tables of the catalog but these, as far as namespaces are not nested.

    One that is spelled otherwise is one of these where the catalog ignores case; else it may have been one before.
    """
    there = dict.fromkeys(
        ".".join(identifier)
        for namespace in listed(catalog.list_namespaces, ())
        for identifier in listed(catalog.list_tables, namespace)
        if len(identifier) == 2  # noqa: PLR2004 - namespace and name
    )
    spelled = {name.lower(): name for name in ours}
    alike = [spelled[name.lower()] for name in there if name.lower() in spelled]
    ignores_case = any(catalog.table_exists(name) for name in alike if name not in there)
    return [name for name in there if name not in ours and not (ignores_case and name.lower() in spelled)]


def _rename_of(lake: Lake, contract: Contract) -> tuple[Change, ...]:
    if lake.state(contract.table, ledger=False).exists:
        return ()
    plan = renaming(lake, contract)
    return plan.changes if plan else ()


def _same_topic(lake: Lake, state: TableState, contract: Contract) -> bool:
    """One whose ledger is lost is told by its properties: renamed it stops for that, under the name that is known."""
    topic = state.ledger.topic if state.ledger else state.properties[OWNED]
    if topic != contract.topic or remembered(state.properties).get(EVENT) != contract.event:
        return False
    if state.properties.get(CLUSTER, contract.cluster) == contract.cluster:
        return True  # by that name it was made; the cluster may have got another since
    return state.ledger is not None and not another_cluster(
        state.ledger, lake.kafka(contract.cluster).cluster_id()
    )


def _names(configuration: Configuration) -> set[str]:
    found: set[str] = set()
    for each in configuration.contracts:
        found |= {each.table, each.quarantine_table}
        if each.upsert and each.upsert.table:
            found.add(each.upsert.table)
    return found
