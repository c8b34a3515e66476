"""Alerts: what fails is posted to the webhook that TIDEMARK_ALERT_WEBHOOK names, as Slack and its likes take it."""

import os

import dagster as dg

from tidemark.domain.alerts import WEBHOOK

EVERY = 15


def alert_sensor() -> dg.SensorDefinition | None:
    """None without a webhook. A secret that is mounted as a file often ends in a newline, which is none of it."""
    webhook = os.environ.get(WEBHOOK, "").strip()
    if not webhook:
        return None

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Posts failed runs (which tables stopped, why, the next step) and checks that turn red.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        from sensors.alerts_answer import post  # noqa: PLC0415 - loading the definitions needs no HTTP client

        return post(context, webhook)

    return alerts
