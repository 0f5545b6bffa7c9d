"""An event as JSON and back, so that another process can continue a turn."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentic.agent.automation import CronEvent, HeartbeatEvent, WebhookEvent
from agentic.agent.calls import InstructionEvent, MentionEvent
from agentic.agent.event import TurnEvent
from agentic.agent.reflection import ReflectionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The event that a turn began with. `after` is the channel's newest message then, 0 for none."""

    after: int = 0
    mention: MentionEvent | None = None
    instruction: InstructionEvent | None = None
    heartbeat: HeartbeatEvent | None = None
    cron: CronEvent | None = None
    webhook: WebhookEvent | None = None
    reflection: ReflectionEvent | None = None

    @property
    def event(self) -> TurnEvent | None:
        called = self.mention or self.instruction or self.reflection
        return called or self.heartbeat or self.cron or self.webhook


_BEGUN: TypeAdapter[Begun] = TypeAdapter(Begun)
# Not hooks: they run again around an event that is continued, and those of a process end with it.
_FIELDS: Mapping[type[TurnEvent], str] = {
    MentionEvent: "mention",
    InstructionEvent: "instruction",
    HeartbeatEvent: "heartbeat",
    CronEvent: "cron",
    WebhookEvent: "webhook",
    ReflectionEvent: "reflection",
}


def save_event(event: TurnEvent, after: int) -> str:
    """Returns JSON; "" for a kind of event that is not continued."""
    field = _FIELDS.get(type(event))
    if field is None or (isinstance(event, ReflectionEvent) and event.writes):
        return ""  # what is written is for the coordinator, which asks again while it waits for it
    begun: dict[str, Any] = {"after": after, field: event}
    return _BEGUN.dump_json(Begun(**begun), exclude_defaults=True).decode()


def read_begun(text: str | None) -> Begun:
    """Read what `save_event` wrote; without an event where it cannot be read."""
    try:
        return _BEGUN.validate_json(text or "{}")
    except ValidationError as error:
        log.warning("a turn's event cannot be read, so the turn is not continued: %d errors", error.error_count())
        return Begun()
