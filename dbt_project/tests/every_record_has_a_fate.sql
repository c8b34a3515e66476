-- The identity that the audit keeps: read = written + quarantined + tombstones + skipped.
select table_name, committed_on
from {{ ref('data_quality') }}
where rows_read <> rows_written + rows_quarantined + tombstones + rows_skipped
