{#
  As dbt's own, and besides: marts whose tables were rolled back or replayed since, which Tidemark names in `made_anew`.
#}
{% macro should_full_refresh() %}
  {%- set said = config.get('full_refresh') -%}
  {%- if said is none -%}
    {%- set said = flags.FULL_REFRESH or model.name in var('made_anew', []) -%}
  {%- endif -%}
  {% do return(said) %}
{% endmacro %}
