"""The states of a table and the one remedy of each (docs/operations.md, States).

A state is *fine* (fresh, lagging, paused), a *stop* (as a rule a person or a fix resolves it, not a new attempt) or an
*outage* (retried from the plan; nothing moved).
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

State = Literal[
    "fresh",
    "lagging",
    "paused",
    "schema_review",
    "schema_unsupported",
    "quality_blocked",
    "quarantine_flood",
    "misconfigured",
    "permission_denied",
    "topic_missing",
    "topic_recreated",
    "transaction_open",
    "cluster_changed",
    "partitions_shrunk",
    "offsets_expired",
    "offsets_regressed",
    "table_missing",
    "ledger_missing",
    "table_incompatible",
    "registry_down",
    "kafka_down",
    "catalog_down",
    "store_down",
    "spark_down",
    "failed",
]
STATES: tuple[State, ...] = get_args(State)
FINE: frozenset[State] = frozenset({"fresh", "lagging", "paused"})
OUTAGES: frozenset[State] = frozenset(
    {"transaction_open", "registry_down", "kafka_down", "catalog_down", "store_down", "spark_down"}
)
HELD_BACK: frozenset[State] = frozenset({"quarantine_flood", "quality_blocked", "misconfigured"})
"""States that a batch is stopped in for what it holds; `accept --quarantine-batch` lets it through."""
Acceptance = Literal["first-load", "new-epoch", "record-gap", "quarantine-batch"]
"""What `accept` can be asked for, each for the states that it resolves."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a state means, what is not lost, and the one thing that resolves it.

    `{table}`, `{topic}` and `{cluster}` are filled in.
    """

    meaning: str
    remedy: str
    safe: str = "Nothing of the batch was published: its records stay in Kafka, and the other tables go on."


_AGAIN = "What was not published stays in Kafka and is read by the next run; nothing half done can be seen."
_BACK = "tidemark services up (embedded stack) or bring it back; the next run continues"
_COPY = "; where the topic is a copy of the old one, its records come twice: see docs/operations.md, Kafka is lost"

REMEDIES: dict[State, Remedy] = {
    "fresh": Remedy(
        "Everything that Kafka holds is published within the target lag and one `poll` of the lane.", "", ""
    ),
    "lagging": Remedy(
        "Kafka holds records that are not published yet.",
        "tidemark run {table}",
        "They stay in Kafka until they are.",
    ),
    "paused": Remedy(
        "Someone has paused the table, or a rollback has; nothing is ingested. Its property tidemark.paused says who "
        "and why: after a rollback, mend what was wrong before you resume it.",
        "tidemark resume {table} --reason …",
        "Records stay in Kafka as long as it keeps them; the other tables go on.",
    ),
    "schema_review": Remedy(
        "Records need a schema change that the contract wants reviewed; they wait in Kafka.",
        "tidemark plan {table}, then tidemark approve {table} PLAN --reason …",
    ),
    "schema_unsupported": Remedy(
        "A writer schema of the topic cannot be held by the table.",
        "register a schema that the table can hold, or send this one's records to the quarantine "
        "(schema_changes: {{incompatible: quarantine}} in the contract); where partition_by needs a dropped column, "
        "edit partition_by; then tidemark run {table}",
    ),
    "quality_blocked": Remedy(
        "A blocking quality rule failed on the staged batch; nothing was published.",
        "tidemark accept {table} --quarantine-batch --reason … (rows that break a rule go to quarantine, the others "
        "in), or change the rule in the contract; then tidemark run {table}",
    ),
    "quarantine_flood": Remedy(
        "More of a batch than quarantine.fail allows cannot enter: misconfiguration rather than bad data.",
        "fix the contract's format or rules, or tidemark accept {table} --quarantine-batch --reason …",
    ),
    "misconfigured": Remedy(
        "The contract or the platform file does not fit what is there.",
        "mend the contract or the platform file, then tidemark check and tidemark run {table}",
    ),
    "permission_denied": Remedy(
        "A service refused the credentials, or they lack a right.",
        "grant or renew what the message names (docs/deployment.md, Rights), then tidemark run {table}",
    ),
    "topic_missing": Remedy(
        "Topic {topic} does not exist on cluster {cluster}.",
        "create the topic, or mend `topic` in the contract; if it is gone for good, remove the contract, or let its "
        "`topics` match it no longer",
        "The rows that were published stay; the other tables go on.",
    ),
    "topic_recreated": Remedy(
        "Topic {topic} is not the one that was read: its offsets mean other records.",
        "tidemark accept {table} --new-epoch --reason … (reads the new topic from its log start; --dry-run says "
        f"where){_COPY}",
        "The rows that were published stay, and nothing of the new topic was read; what was not read of the old topic "
        "went with it.",
    ),
    "transaction_open": Remedy(
        "An open transaction of a producer holds back the last stable offset.",
        "end the transaction (kafka-transactions.sh find-hanging), then tidemark run {table}",
        _AGAIN,
    ),
    "cluster_changed": Remedy(
        "The bootstrap servers now lead to another Kafka cluster.",
        f"mend kafka.{{cluster}} in platform.yaml, or tidemark accept {{table}} --new-epoch --reason …{_COPY}",
        "The rows that were published stay, and nothing was read from the other cluster.",
    ),
    "partitions_shrunk": Remedy(
        "Topic {topic} has fewer partitions than the ledger knows.",
        "tidemark accept {table} --new-epoch --reason …",
        "The rows that were published stay, and nothing was read from the smaller topic.",
    ),
    "offsets_expired": Remedy(
        "Kafka has deleted records that were not read yet.",
        "tidemark accept {table} --record-gap --reason …",
        "The rows that were published stay; the named range is lost, what comes after it is still in Kafka.",
    ),
    "offsets_regressed": Remedy(
        "The topic ends before the offset that the table has committed.",
        "tidemark accept {table} --new-epoch --reason …",
        "The rows that were published stay, and nothing was read again over them.",
    ),
    "table_missing": Remedy(
        "The table was loaded before and is gone.",
        "restore it, or tidemark accept {table} --first-load --reason …",
        "Nothing was written; what Kafka still holds can be loaded again, and the other tables go on.",
    ),
    "ledger_missing": Remedy(
        "The table is there, but its history carries no ledger of Tidemark's.",
        "take it back to a snapshot that has it, or tidemark accept {table} --first-load --reason …: what Kafka still "
        "has comes beside the rows of an append table, so empty it first where these are of the same records; an "
        "upsert table is made anew",
        "Its rows stay as they are, and nothing was read, so nothing came twice.",
    ),
    "table_incompatible": Remedy(
        "A table of this name exists and its columns do not fit the topic.",
        "declare the types that it has, name another `table` in the contract, or add the missing columns; one without "
        "rows: drop it, and the next run makes it anew; if that run stops as table_missing, tidemark accept {table} "
        "--first-load --reason …",
        "The table that is there was not touched; records stay in Kafka.",
    ),
    "registry_down": Remedy("The schema registry does not answer.", _BACK, _AGAIN),
    "kafka_down": Remedy("The Kafka cluster does not answer.", _BACK, _AGAIN),
    "catalog_down": Remedy("The Iceberg catalog does not answer.", _BACK, _AGAIN),
    "store_down": Remedy("The file store does not answer.", "bring it back; the next run continues", _AGAIN),
    "spark_down": Remedy("The Spark Connect server does not answer.", _BACK, _AGAIN),
    "failed": Remedy(
        "The run failed in a way that has no state of its own.",
        "do what the error says: Dagster shows it on the run's page, tidemark run {table} prints it again",
        _AGAIN,
    ),
}


def remedy(state: State, *, table: str, topic: str = "?", cluster: str = "main") -> str:
    """The remedy of `state` with its names filled in."""
    return REMEDIES[state].remedy.format(table=table, topic=topic, cluster=cluster)


def safe(state: State, *, table: str = "?", topic: str = "?", cluster: str = "main") -> str:
    """What is not lost in `state`, with its names filled in."""
    return REMEDIES[state].safe.format(table=table, topic=topic, cluster=cluster)


def meaning(state: State, *, table: str = "?", topic: str = "?", cluster: str = "main") -> str:
    """The meaning of `state` with its names filled in."""
    return REMEDIES[state].meaning.format(table=table, topic=topic, cluster=cluster)


def named_state(text: Any) -> State:
    """The state of this name; `failed` for anything else."""
    return next((state for state in STATES if state == text), "failed")
