{{ config(
  incremental_strategy='merge', unique_key=['table_name', 'snapshot_id'],
  partition_by=['committed_on'], full_refresh=false
) }}

{#- The ledger of each published batch, kept beyond the life of its snapshot. -#}
{%- set tables = [('shop', 'orders'), ('web', 'clicks'), ('ops', 'audit_log'), ('plant', 'sensors')] -%}

with receipts as (
  {%- for namespace, table in tables %}
  select
    '{{ namespace }}.{{ table }}' as table_name,
    snapshots.snapshot_id,
    snapshots.committed_at,
    snapshots.summary['tidemark.ledger'] as ledger
  from {{ source(namespace, table) }}.snapshots as snapshots
  left semi join {{ source(namespace, table) }}.history as history
    on snapshots.snapshot_id = history.snapshot_id and history.is_current_ancestor
  where snapshots.summary['tidemark.ledger'] is not null
  {%- if not loop.last %}
  union all
  {%- endif %}
  {%- endfor %}
),

batches as (
  select
    table_name,
    snapshot_id,
    committed_at,
    ledger,
    map_values(from_json(get_json_object(ledger, '$.counts'), 'map<string, array<bigint>>')) as counts
  from receipts
  where get_json_object(ledger, '$.kind') = 'append'
)

select
  table_name,
  snapshot_id,
  cast(committed_at as date) as committed_on,
  committed_at,
  aggregate(counts, 0L, (whole, each) -> whole + each[0]) as rows_read,
  aggregate(counts, 0L, (whole, each) -> whole + each[1]) as rows_written,
  aggregate(counts, 0L, (whole, each) -> whole + each[2]) as rows_quarantined,
  aggregate(counts, 0L, (whole, each) -> whole + each[3]) as tombstones,
  aggregate(counts, 0L, (whole, each) -> whole + each[4]) as rows_skipped,
  cast(get_json_object(ledger, '$.max_timestamp') as timestamp) as newest_record_at,
  get_json_object(ledger, '$.run_id') as run_id
from batches
{%- if is_incremental() %}
where not exists (
  select 1 from {{ this }} as known
  where known.table_name = batches.table_name and known.snapshot_id = batches.snapshot_id
)
{%- endif %}
