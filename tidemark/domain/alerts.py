"""What people are told when a run fails or a check turns red: words, and the JSON that chat webhooks take. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from tidemark.domain.config.units import counted, first_few
from tidemark.domain.states import REMEDIES, State

WEBHOOK = "TIDEMARK_ALERT_WEBHOOK"
"""The environment variable with the address that alerts are posted to."""
_NAMED = 20
_SAID = 2_000
"""Characters of what happened that are told: what a tool printed may be of any length, and a chat refuses that."""
_BLOCK = 2_900
_TEXT = 15_000
"""What Slack takes in one block, and Mattermost in one text, with some to spare."""
_HOLDS_DIGIT = re.compile(r"(?<![\w.,:+/=-])[\w.,:+/=-]*\d[\w.,:+/=-]*")
_NAME = r"(?>(?:[^\W\d_]+\d{0,4}|[a-z][a-z\d]{1,6})(?![^\W_]))"
_NAMES = re.compile(rf"[_.,:/-]*+{_NAME}(?:[_.,:/-]++{_NAME}|_\d{{1,4}}(?![^\W_]))*+[_.,:/-]*")
"""As `shop.orders-v2`, `/address_line1:`, `ip4.b2b_7`: letters and then few digits, or short ones that mix both."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that a person should know. `state` is a stop state, where there is one."""

    subject: str
    what: str
    state: State | None = None
    next_step: str = ""
    run_id: str = ""
    safe: str = ""

    def line(self) -> str:
        """What happened, what is not lost, and what to do now; &, < and > are escaped for Slack's mrkdwn."""
        what, safe, following = (escape(each, quote=False) for each in (self.what, self.safe, self.next_step))
        state = f" `{self.state}`" if self.state else ""
        run = f" (run {self.run_id[:8]})" if self.run_id else ""
        kept = f"\n> safe: {safe}" if safe else ""
        following = f"\n> next: {following}" if following else ""
        return f"*{escape(self.subject, quote=False)}*{state}{run}: {what}{kept}{following}"


def stopped(table: str, error: Mapping[str, Any], run_id: str) -> Alert:
    """A table that a run could not go on with; `error` is an error's JSON."""
    state = error.get("state")
    known: State | None = state if state in REMEDIES else None
    remedy = REMEDIES[known].remedy.replace("{table}", table) if known else ""
    return Alert(
        table,
        str(error.get("message") or "the run failed"),
        known,
        str(error.get("next_step") or remedy),
        run_id,
        str(error.get("safe") or ""),
    )


def news_of(severity: str, says: str, plan: str | None) -> str:
    """What makes a red check news: another plan, another severity, other words; not other figures, nor their order."""
    words = sorted(word.strip(",;:") for word in figureless(says).split())
    return digest(severity, " ".join(words) if plan is None else plan)


def figureless(text: str) -> str:
    """Without what is another one each time, which holds a digit: ids of runs and requests, and figures; not names."""
    return _HOLDS_DIGIT.sub(lambda word: word[0] if _NAMES.fullmatch(word[0]) else "#", text)


def digest(kind: str | None, says: str) -> str:
    """8 hex digits, by which what was told is known again."""
    return hashlib.sha256(f"{kind} {says}".encode()).hexdigest()[:8]


def _together(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """What is told at once: a service that is down is one thing, however many tables stand still for it."""
    found: dict[Any, list[Alert]] = {}
    for number, each in enumerate(alerts):
        of_service = each.state is not None and each.state.endswith("_down")
        found.setdefault((each.state, each.next_step) if of_service else number, []).append(each)
    return list(found.values())


def _line(alerts: Sequence[Alert]) -> str:
    first = alerts[0]
    others = list(dict.fromkeys(each.subject for each in alerts if each.subject != first.subject))
    if not others:
        return first.line()
    return f"{first.line()}\n> likewise: {escape(first_few(others, _NAMED), quote=False)}"


def message(alerts: Sequence[Alert]) -> dict[str, Any]:
    """The body of one POST, as Slack's incoming webhooks take it; Mattermost and Rocket.Chat read `text`."""
    alerts = [replace(each, what=each.what[:_SAID]) for each in alerts]
    told = _together(alerts)
    lines = [_line(each) for each in told[:_NAMED]]
    if len(told) > _NAMED:
        lines.append(f"… and {sum(map(len, told[_NAMED:]))} more: tidemark status")
    head = f"Tidemark: {counted(len(alerts), 'alert')}"
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": line[:_BLOCK]}} for line in lines]
    return {
        "text": "\n".join([head, *lines])[:_TEXT],
        "blocks": [{"type": "header", "text": {"type": "plain_text", "text": head}}, *blocks],
        "alerts": [
            {"subject": a.subject, "state": a.state, "what": a.what, "next": a.next_step, "run_id": a.run_id}
            for a in alerts
        ],
    }
