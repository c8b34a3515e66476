"""What each key of contract and platform file says, in one line: shown by editors and on the reference pages.

Keys are `<section>.<key>`, sections as the JSON Schemas name them. A test asks for a line for every key.
"""

CONTRACT = {
    "topic": "The Kafka topic; this key alone is a whole contract.",
    "topics": "Instead of `topic`: a regular expression over whole topic names; each match becomes a contract.",
    "table": (
        "`namespace.name`; default: `<default_namespace>.<topic>` with `.` and `-` as `_`, and `t_` before a "
        "digit at the front; at most 235 characters after the dot. `{group}` of `topics` may stand in it."
    ),
    "cluster": "Which Kafka cluster and registry of the platform file.",
    "description": "What the table is, for the catalog and the review pack.",
    "owners": "Who answers for the data and for the stream.",
    "approvers": "Who may approve a schema change; default: the owner of the data.",
    "runbook": "A link for the person on call.",
    "tags": "Tags of the assets in Dagster.",
    "lane": "Tables of a lane share runs; the platform file says how its runs go.",
    "target_lag": (
        "Commit when the oldest unpublished record is this old. Freshness, file sizes and the number of "
        "snapshots follow from it."
    ),
    "event_time": (
        "The column that says when something happened: watermark and late rows are counted by it, and it "
        "partitions by day unless `partition_by` is given, be it as `[]`."
    ),
    "value": "How record values are read.",
    "key": "How record keys are read, and which columns they fill.",
    "events": "Several record types in one topic: record name -> table.",
    "columns": "Notes on single columns: description, tags, who may carry them.",
    "partition_by": (
        "`year month day hour(c)`, `bucket(n, c)`, `truncate(w, c)` or the column itself; columns may be "
        "nested."
    ),
    "sort_by": "The order inside files.",
    "format_version": "Iceberg's; 3 gives VARIANT and deletion vectors.",
    "table_properties": "Further Iceberg table properties.",
    "schema_changes": "What happens when a writer's schema changes.",
    "upsert": "A second table with the current state by key; `upsert: [order_id]` is short for its keys.",
    "quality": "Rules on rows and on batches, checked before publishing.",
    "quarantine": "Shares of a batch that may be unreadable before Tidemark warns, and before it publishes nothing.",
    "freshness": "When published data is late.",
    "ingest": "Where the first load starts, and how large a batch may be.",
    "retention": "How long rows are kept.",
    "maintenance": "Thresholds of compaction, snapshot expiry and orphan removal.",
    "Owners.data": "A Dagster owner: an e-mail address or `team:name`.",
    "Owners.stream": "A Dagster owner: an e-mail address or `team:name`.",
    "Value.format": "`registry` finds Avro, Protobuf or JSON Schema by the schema id.",
    "Value.schema": "By the id in each record, by the newest version of the subject, or by one pinned version.",
    "Value.subject": "For the registry; default: `<topic>-value`.",
    "Value.version": "`schema: pinned` only: which version.",
    "Value.message": "Protobuf without the registry's header: which message.",
    "Value.fields": "`format: json` only: columns as Spark DDL types; without it the document is one column.",
    "Value.envelope": "Debezium's records, whole or flattened by ExtractNewRecordState.",
    "Value.types": "Choices where a type can land in two ways; see Types.",
    "Key.format": "What a Kafka key holds.",
    "Key.fields": "The columns that the key, or its fields in this order, stand for.",
    "ColumnNote.tags": (
        "`pii` and the like; they travel along the lineage. Samples and details show no values of `pii` columns."
    ),
    "ColumnNote.description": "Instead of the registered schema's doc.",
    "ColumnNote.allow": "Downstream tables that may carry the tags.",
    "SchemaChanges.add_column": "A column that the table does not have.",
    "SchemaChanges.widen_type": "int to long, float to double, a decimal of more digits.",
    "SchemaChanges.remove_column": "A column that writers drop; the table keeps it, and it reads NULL.",
    "SchemaChanges.incompatible": "Anything else; `apply` is refused.",
    "Upsert.table": "Default: `<table>_current`; at most 247 characters after the dot.",
    "Upsert.keys": "Columns, or `_kafka.key`.",
    "Upsert.order_by": "Which event of a key is newer; name a source column when a key may move between partitions.",
    "Upsert.deletes": "`hard`: the row goes. `soft`: it stays, with `_is_deleted`.",
    "Upsert.on_truncate": "What a truncate event does.",
    "Upsert.partition_by": "Default: as the append table.",
    "Upsert.sort_by": "Default: as the append table.",
    "Upsert.format_version": "Default: as the append table.",
    "Upsert.target_lag": (
        "Default: as the append table. `freshness.warn` is then two of these at least, up to `fail`; "
        "`fail` is ten at least where one is above `warn`."
    ),
    "QualityRule.name": "Of the asset check and of the cause; default: check and columns.",
    "QualityRule.check": "One of the named checks; or `sql`.",
    "QualityRule.sql": "A condition over the columns of a row; broken when it is false.",
    "QualityRule.column": "Which column the check looks at.",
    "QualityRule.columns": "`unique`: these columns together.",
    "QualityRule.min": "Inclusive.",
    "QualityRule.max": "Inclusive.",
    "QualityRule.values": "`in_set`, `not_in_set`: the values.",
    "QualityRule.pattern": "`matches`: a regular expression (Java's) for the whole text.",
    "QualityRule.within": "`unique`: among the rows of the batch, or of the whole table.",
    "QualityRule.on_failure": "The row goes to quarantine, lands and is counted, or blocks the batch.",
    "Quarantine.warn": "Above this share the check `quarantine_rate` warns.",
    "Quarantine.fail": "Above this share nothing of the batch is published.",
    "Freshness.warn": "Default: two target lags.",
    "Freshness.fail": "Default: ten target lags.",
    "Freshness.silence": "A topic that should never be quiet this long, from 1m up; without it a quiet topic is fresh.",
    "Ingest.start": "First load only: `earliest`, `latest`, a time, `{offsets: …}` or `{consumer_group: …}`.",
    "Ingest.max_records": "Records of one batch at most.",
    "Ingest.commit_to_group": (
        "Write the published offsets to this consumer group, for lag tools; `{table}` may stand in it. Never read."
    ),
    "StartOffsets.offsets": "Partition -> first offset; partitions that are not named start at the earliest.",
    "StartConsumerGroup.consumer_group": "Start where this group has committed.",
    "Retention.append": "Append rows older than this are deleted, never before they are merged.",
    "Maintenance.compaction": "When files are worth rewriting.",
    "Maintenance.snapshots": "Which snapshots are kept.",
    "Maintenance.orphans": "Which files without a snapshot may go.",
    "Compaction.target_file_size": "Size of rewritten files; binary: 1 MB = 1024 kB.",
    "Compaction.min_input_files": "Small files of a partition that make a rewrite worth it.",
    "Compaction.max_delete_ratio": "Share of deleted rows that makes a rewrite worth it.",
    "Compaction.max_bytes": "Bytes that one run rewrites at most; binary.",
    "Snapshots.max_age": "Younger snapshots stay.",
    "Snapshots.min_keep": "So many stay however old they are.",
    "Snapshots.max_count": "Beyond this the oldest go, however young they are; unless said, also beyond 8 MB of "
    "ledgers, which is 369 for a topic of 500 partitions.",
    "Orphans.older_than": "Younger files stay; from 1d up, for those of a commit under way are young.",
}

PLATFORM = {
    "default_namespace": "Of tables whose contract names none.",
    "kafka": "Clusters by name; any client property in librdkafka's words.",
    "schema_registry": "Registries by the name of their cluster.",
    "catalog": "The Iceberg catalog; any further Iceberg property stands beside its own keys.",
    "spark": "The Spark Connect server.",
    "lanes": "How the runs of each lane go; `default` is always there.",
    "openlineage": "Where lineage events go; without it none are sent.",
    "maintenance": "When maintenance looks whether there is work; cron, in UTC.",
    "defaults": "Any contract key, for all contracts.",
    "report_every": "A lingering run reports a table to Dagster at most this often.",
    "SchemaRegistry.url": "Confluent's REST interface; a user and a password in it are percent-encoded.",
    "SchemaRegistry.basic.auth.user.info": "`user:password`.",
    "SchemaRegistry.bearer.auth.token": "A token instead.",
    "SchemaRegistry.ssl.ca.location": "PEM file of the authority.",
    "SchemaRegistry.ssl.certificate.location": "PEM file of the client's certificate.",
    "SchemaRegistry.ssl.key.location": "PEM file of its key.",
    "Catalog.name": "The catalog's name in Spark and PyIceberg.",
    "Catalog.type": "S3 Tables, Polaris, Nessie, Unity through `rest`; `sql` is PostgreSQL or SQLite; `hive` needs "
    "`pip install 'pyiceberg[hive]'`.",
    "Catalog.uri": "Where it answers; a user and a password in it are percent-encoded.",
    "Catalog.warehouse": "Where the files are; of Polaris, Lakekeeper and Unity the catalog's name, of S3 Tables the "
    "table bucket's ARN.",
    "Catalog.auth": "How PyIceberg logs in to a REST catalog where `credential`, `token` and `rest.sigv4-…` are not "
    "it; Spark has `rest.auth.…`.",
    "Catalog.ssl": "For PyIceberg and a REST catalog; Java has a truststore.",
    "Login.type": "The section of this name says more; `noop` is no login at all.",
    "Login.impl": "`module.Class` of a PyIceberg `AuthManager`, for `custom`.",
    "Login.basic": "The user.",
    "Login.google": "What `GoogleAuthManager` takes: `credentials_path`, `scopes`.",
    "Login.entra": "What `EntraAuthManager` takes: `scopes` and what `DefaultAzureCredential` takes.",
    "Login.custom": "What the class takes.",
    "Basic.username": "Its name.",
    "Basic.password": "Its password.",
    "Tls.cabundle": "PEM file of the authority.",
    "Tls.client": "The client's certificate.",
    "Certificate.cert": "PEM file of the client's certificate.",
    "Certificate.key": "PEM file of its key.",
    "Spark.remote": "`sc://host:port`; with a login `sc://host:port/;use_ssl=true;token=${TOKEN}`.",
    "Spark.conf": "Settings of the sessions.",
    "Lane.poll": "Look for lag so often, from 1s up; a run with a table of a short target lag looks more often.",
    "Lane.parallel": "Tables at once.",
    "Lane.linger": "Wait so long for more before the run ends.",
    "Lane.max_run": "Hand over to a fresh run after this; later where a lane has many tables.",
    "MaintenanceSchedules.compaction": "Small files and deleted rows.",
    "MaintenanceSchedules.snapshots": "Snapshots, and rows beyond `retention`.",
    "MaintenanceSchedules.orphans": "Files that no snapshot names.",
    "OpenLineage.transport": "As openlineage-python takes it: `{type: http, url: …}`.",
}
