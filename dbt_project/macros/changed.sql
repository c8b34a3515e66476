{#
  Which groups of a source an incremental run computes again: those that hold more rows than the mart has counted.

  Late rows, replayed batches and a run that was missed are all seen, for nothing is remembered but the mart itself;
  rows that retention has removed from the source change nothing, for the count does not grow.
  A rollback takes rows away, a correction may keep their number: Tidemark sees both and makes the mart anew (should_full_refresh).
#}
{% macro in_changed(relation, group, mart_group, mart_count) %}
  {%- if is_incremental() %}
  and {{ group }} in (
    select source_rows.changed_group
    from (
      select {{ group }} as changed_group, count(*) as counted
      from {{ relation }}
      where not coalesce(_kafka.tombstone, false)
      group by 1
    ) as source_rows
    left join (
      select {{ mart_group }} as mart_group, sum({{ mart_count }}) as counted from {{ this }} group by 1
    ) as mart_rows
      on source_rows.changed_group = mart_rows.mart_group
    where mart_rows.counted is null or source_rows.counted > mart_rows.counted
  )
  {%- endif %}
{% endmacro %}
