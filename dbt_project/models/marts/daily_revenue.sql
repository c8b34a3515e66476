{{ config(incremental_strategy='insert_overwrite', partition_by=['order_day']) }}

select
  cast(ordered_at as date) as order_day,
  count(*) as orders,
  count(distinct customer_id) as customers,
  cast(sum(amount) as decimal(18, 2)) as revenue,
  cast(sum(case when status in ('PAID', 'SHIPPED') then amount else 0 end) as decimal(18, 2)) as paid_revenue,
  cast(sum(amount) / count(*) as decimal(18, 2)) as average_order,
  max(ordered_at) as last_order_at
from {{ source('shop', 'orders') }}
where not coalesce(_kafka.tombstone, false)
  {{ in_changed(source('shop', 'orders'), 'cast(ordered_at as date)', 'order_day', 'orders') }}
group by 1
