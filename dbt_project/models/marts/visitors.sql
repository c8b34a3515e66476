{{ config(materialized='table') }}

{#- Made anew each time: a key that was deleted from the upsert table leaves the mart, which no incremental strategy does. -#}
select
  newest.visitor,
  newest.page as last_page,
  newest.clicked_at as last_seen_at,
  came.visits,
  came.clicks
from {{ source('web', 'last_clicks') }} as newest
inner join (
  select
    visitor,
    count(*) as visits,
    sum(clicks) as clicks
  from {{ ref('sessions') }}
  group by visitor
) as came on newest.visitor = came.visitor
