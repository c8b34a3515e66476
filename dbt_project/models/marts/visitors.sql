{{ config(incremental_strategy='merge', unique_key='visitor') }}

{#- Rows of an upsert table change: a visitor is computed again when anything that is told of them differs. -#}
with came as (
  select
    visitor,
    count(*) as visits,
    sum(clicks) as clicks
  from {{ ref('sessions') }}
  group by visitor
)

select
  newest.visitor,
  newest.page as last_page,
  newest.clicked_at as last_seen_at,
  came.visits,
  came.clicks
from {{ source('web', 'last_clicks') }} as newest
inner join came on newest.visitor = came.visitor
{%- if is_incremental() %}
left join {{ this }} as known on newest.visitor = known.visitor
where
  known.visitor is null
  or known.last_seen_at is distinct from newest.clicked_at
  or known.last_page is distinct from newest.page
  or known.clicks is distinct from came.clicks
  or known.visits is distinct from came.visits
{%- endif %}
