{{ config(incremental_strategy='merge', unique_key='customer_id') }}

select
  customer_id,
  max_by(email, ordered_at) as email,
  count(*) as orders,
  cast(sum(amount) as decimal(18, 2)) as revenue,
  min(ordered_at) as first_order_at,
  max(ordered_at) as last_order_at
from {{ source('shop', 'orders') }}
where not coalesce(_kafka.tombstone, false)
  {{ in_changed(source('shop', 'orders'), 'customer_id', 'customer_id', 'orders') }}
group by customer_id
