{#
  As dbt's own, but what is made anew is replaced in one commit and read until then, as `table` does it: dbt drops an Iceberg table first.
#}
{% materialization incremental, adapter='spark' %}
  {%- if load_relation(this) is not none and should_full_refresh() -%}
    {{ return(materialization_table_spark()) }}
  {%- endif -%}
  {{ return(dbt.materialization_incremental_spark()) }}
{% endmaterialization %}
