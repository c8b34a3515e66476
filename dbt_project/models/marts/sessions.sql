{{ config(incremental_strategy='insert_overwrite', partition_by=['session_day']) }}

with clicks as (
  select
    visitor,
    page,
    clicked_at,
    cast(clicked_at as date) as session_day
  from {{ source('web', 'clicks') }}
  where not coalesce(_kafka.tombstone, false)
    {{ in_changed(source('web', 'clicks'), 'cast(clicked_at as date)', 'session_day', 'clicks') }}
),

begun as (
  select
    visitor,
    page,
    clicked_at,
    session_day,
    case
      when clicked_at <= lag(clicked_at) over (partition by visitor, session_day order by clicked_at)
        + interval {{ var('session_gap_minutes') }} minutes then 0
      else 1
    end as begins
  from clicks
),

numbered as (
  select
    visitor,
    page,
    clicked_at,
    session_day,
    sum(begins) over (
      partition by visitor, session_day order by clicked_at rows between unbounded preceding and current row
    ) as session_number
  from begun
)

select
  session_day,
  concat_ws('/', visitor, cast(session_day as string), cast(session_number as string)) as session_id,
  visitor,
  min(clicked_at) as started_at,
  max(clicked_at) as ended_at,
  count(*) as clicks,
  count(distinct page) as pages,
  min_by(page, clicked_at) as entry_page,
  max_by(page, clicked_at) as exit_page
from numbered
group by session_day, visitor, session_number
