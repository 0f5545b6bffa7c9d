"""The section "Hooks" of agents.md: tasks when an agent starts, before and after each event, and when it stops.

    ## Hooks

    ### agent_stop
    - when: message, webhook

    Note in your memory what was decided, if anything was.

Each hook is a model call, so `when` limits agent_begin and agent_stop to the events that are worth it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentic.personas.fields import Problems, good_name, read_channel, read_field
from agentic.personas.markdown import Section, fields_of, scan, under

FILE = "agents.md"
HEADING = "Hooks"
FIELDS = ("when", "channel")
HookName = Literal["startup", "agent_begin", "agent_stop", "shutdown"]
HOOKS: tuple[HookName, ...] = ("startup", "agent_begin", "agent_stop", "shutdown")
AROUND_EVENTS = ("agent_begin", "agent_stop")
EVENT_TYPES = frozenset({"message", "heartbeat", "cron", "webhook", "instruction", "reflection"})
"""Those that have hooks around them. The type "hook" is not among them: hooks never call hooks."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook. `when`: only around events of these types, None for all. `channel`: as in a check."""

    instruction: str
    when: frozenset[str] | None = None
    channel: int | str | None = None

    def fires_for(self, event_type: str) -> bool:
        return event_type in (EVENT_TYPES if self.when is None else self.when)


@dataclass(frozen=True, slots=True)
class Hooks:
    """An agent's hooks, None for those it does not have."""

    startup: Hook | None = None
    agent_begin: Hook | None = None
    agent_stop: Hook | None = None
    shutdown: Hook | None = None

    def named(self, name: HookName) -> Hook | None:
        found: Hook | None = getattr(self, name)
        return found


def parse_hooks(text: str | None) -> tuple[Hooks, tuple[str, ...]]:
    """Return the valid hooks of agents.md, and problems with file and line."""
    problems, found = Problems(FILE, text), dict[str, Hook]()
    for section in under(scan(text or ""), HEADING):
        name = section.title.lower().replace(" ", "_").replace("-", "_")
        if name not in HOOKS:
            problems.add(section.heading.number, f"{section.title!r} is not a hook; the hooks are {', '.join(HOOKS)}")
            continue
        hook = _hook(name, section, problems)
        if name in found:
            problems.add(section.heading.number, f"{name} is given twice; the first one counts")
        elif hook is not None and good_name(section, (), problems):
            found[name] = hook
    return Hooks(**found), problems.lines()


def _hook(name: str, section: Section, problems: Problems) -> Hook | None:
    fields = fields_of(section, FIELDS)
    problems.of(fields)
    when, right = read_field(fields, "when", _types, problems)
    channel, known = read_field(fields, "channel", read_channel, problems)
    if when is not None and name not in AROUND_EVENTS:
        problems.add(fields.lines["when"], f"when: ignored, {name} does not belong to an event")
        when = None
    if not fields.text:
        problems.add(section.heading.number, f"{name} has no instruction")
    # One whose condition cannot be read does not run: to run for every event may cost a lot.
    return Hook(fields.text, when, channel) if fields.text and right and known else None


def _types(text: str) -> frozenset[str]:
    named = frozenset(word.strip().lower() for word in text.split(",") if word.strip())
    if not named or named - EVENT_TYPES:
        raise ValueError(f"expected types of events: {', '.join(sorted(EVENT_TYPES))}")
    return named
