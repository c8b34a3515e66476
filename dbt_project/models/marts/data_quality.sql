{{ config(incremental_strategy='merge', unique_key=['table_name', 'committed_on']) }}

select
  table_name,
  committed_on,
  count(*) as batches,
  sum(rows_read) as rows_read,
  sum(rows_written) as rows_written,
  sum(rows_quarantined) as rows_quarantined,
  sum(tombstones) as tombstones,
  sum(rows_skipped) as rows_skipped,
  cast(sum(rows_quarantined) as double) / greatest(sum(rows_read), 1) as quarantined_share,
  max(cast(rows_quarantined as double) / greatest(rows_read, 1)) as worst_batch_share,
  max(unix_seconds(committed_at) - unix_seconds(newest_record_at)) as worst_delay_seconds,
  max(committed_at) as last_commit_at
from {{ ref('ingest_batches') }}
{%- if is_incremental() %}
-- a batch of the evening may be published after midnight, when others are counted already
where committed_on >= (select date_sub(coalesce(max(committed_on), date '1970-01-02'), 1) from {{ this }})
{%- endif %}
group by table_name, committed_on
