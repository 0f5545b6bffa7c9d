"""The tasks that nobody in a channel asked for: of the persona's files, and of requests from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentic.agent.event import TurnEvent
from agentic.context.automation_task import AutomationTask


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationEvent(TurnEvent):
    """A task that nobody in a channel asked for: not forced, no cooldown, and its time begins with its turn, since
    nobody waits for it. Where `channel_id` is NO_CHANNEL, nobody reads what it says."""

    @property
    def task(self) -> AutomationTask:
        """The task, as the prompt gives it."""
        raise TypeError(f"{type(self).__name__} has no task")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEvent(AutomationEvent):
    """A check of heartbeat.md is due."""

    kind: ClassVar[str] = "heartbeat"

    check: str
    instruction: str

    @property
    def source(self) -> str:
        return f"heartbeat.md: {self.check}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your regular check “{self.check}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEvent(AutomationEvent):
    """A job of agents.md is due."""

    kind: ClassVar[str] = "cron"

    job: str
    instruction: str

    @property
    def source(self) -> str:
        return f"agents.md: {self.job}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your scheduled job “{self.job}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(AutomationEvent):
    """A hook of agents.md. `around` is the kind of the event before or after which it runs, "" for none; `on_behalf` is
    the person who brought that event about. `aside`: it reads the event's channel and says nothing there."""

    kind: ClassVar[str] = "hook"

    hook: str
    instruction: str
    around: str = ""
    aside: bool = False
    on_behalf: int | None = None

    @property
    def person_id(self) -> int | None:
        return self.on_behalf

    @property
    def source(self) -> str:
        return f"agents.md: {self.hook}"

    @property
    def task(self) -> AutomationTask:
        when = _MOMENTS.get(self.hook, self.hook).format(kind=self.around)
        return AutomationTask(occasion=when, text=self.instruction, unheard=self.aside)


_MOMENTS = {
    "startup": "you have just started",
    "shutdown": "you are about to stop",
    "agent_begin": "right before you turn to an event ({kind})",
    "agent_stop": "right after you have turned to an event ({kind})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent(AutomationEvent):
    """A signed request from outside. Its signature lets it begin a turn; what it says is data, not an order."""

    kind: ClassVar[str] = "webhook"

    name: str
    payload_text: str

    @property
    def source(self) -> str:
        return f"webhook: {self.name}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"news from outside, “{self.name}”", text=self.payload_text, data=True)
