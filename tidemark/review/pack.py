"""The pack: reviews into one HTML file that needs nothing else, no network, no script."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import tidemark
from tidemark.domain.config.units import format_duration
from tidemark.domain.states import FINE, OUTAGES
from tidemark.domain.times import age
from tidemark.engine.schema.history import KEPT
from tidemark.review.acts import told
from tidemark.review.collect import Review
from tidemark.review.picture import lineage
from tidemark.review.plots import minute, over_time, short

FILE = "index.html"


def page(reviews: Sequence[Review], catalog: str) -> str:
    """The whole page, worst first; a table is as bad as its upsert table, if that is worse."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "short": _short,
        "minute": _minute,
        "duration": format_duration,
        "age": age,
        "act": told,
        "place": lambda each: f"{each.table}.{each.column}",
    }
    template = environment.from_string(files("tidemark.review").joinpath("pack.html").read_text("utf-8"))
    ordered = sorted(reviews, key=lambda each: min(status.gravity for status in each.stands))
    return template.render(
        reviews=ordered,
        catalog=catalog,
        made=minute(datetime.now(UTC)),
        version=tidemark.__version__,
        tone=_tone,
        picture=_picture,
        plots=_plots,
        kept=KEPT,
    )


def _short(number: float | None) -> str:
    return "–" if number is None else short(number)


def _picture(review: Review) -> Markup:
    contract = review.contract
    upsert = contract.upsert.table if contract.upsert else None
    return Markup(  # noqa: S704 - every name in it is escaped
        lineage(contract.topic, contract.table, contract.quarantine_table, upsert, review.marts)
    )


def _plots(review: Review) -> list[tuple[str, Markup]]:
    batches = [each for each in review.receipts if each.ledger.kind == "append"]
    limits = review.contract.freshness
    named = [
        (word, limit.total_seconds())
        for word, limit in (("warn", limits.warn), ("fail", limits.fail))
        if limit
    ]
    drawn = [
        (
            "From the newest record to its commit",
            over_time(
                [(each.at, each.delay) for each in batches if each.delay is not None],
                title="Delay in seconds",
                unit=" s",
                limits=named,
            ),
        ),
        (
            "Records per batch",
            over_time(
                [(each.at, float(each.rows.read)) for each in batches], title="Records per batch", bars=True
            ),
        ),
        (
            "Records in quarantine per batch",
            over_time(
                [(each.at, float(each.rows.quarantined)) for each in batches],
                title="Quarantined per batch",
                bars=True,
            ),
        ),
    ]
    return [(title, Markup(svg)) for title, svg in drawn]  # noqa: S704 - drawn above, texts escaped


def _tone(state: str) -> str:
    if state in FINE:
        return {"fresh": "good", "lagging": "warn", "paused": "calm"}[state]
    return "warn" if state in OUTAGES else "bad"


def _minute(text: str | datetime | None) -> str:
    if text is None:
        return "–"
    return minute(datetime.fromisoformat(text) if isinstance(text, str) else text)
