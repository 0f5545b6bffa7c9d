"""The rules that follow from the type of an event."""

from __future__ import annotations

from typing import TypeGuard

from agentic.agent.automation import AutomationEvent, CronEvent, HeartbeatEvent
from agentic.agent.calls import InstructionEvent, MentionEvent
from agentic.agent.event import TurnEvent
from agentic.agent.reflection import ReflectionEvent
from agentic.context.build import Trigger
from agentic.context.options import Options


def looks_things_up(event: TurnEvent) -> bool:
    """Whether the turn may search the web in any theme: scheduled tasks are often about news."""
    return isinstance(event, HeartbeatEvent | CronEvent) or is_unasked(event)


def is_unasked(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether it may post what nobody asked for."""
    return isinstance(event, ReflectionEvent) and not event.writes


def searches_first(event: TurnEvent, options: Options) -> bool:
    """Whether the turn searches the web before it answers, once. Without a search nobody knows whether there is
    something new to write unasked."""
    return is_unasked(event) or (options.always_search and event.answers_person)


def asked_id(event: TurnEvent) -> int | None:
    """The message of a person that the turn answers."""
    if isinstance(event, MentionEvent):
        return event.asked.id
    if not isinstance(event, InstructionEvent):
        return None
    given = event.instruction
    return given.take_up if given.trigger_message_id is None else given.trigger_message_id


def trigger_of(event: TurnEvent) -> Trigger:
    if isinstance(event, MentionEvent):
        return "continue" if event.continues else "mention" if event.by_person else "call"
    if isinstance(event, AutomationEvent):
        return "errand"
    if not isinstance(event, InstructionEvent):
        raise TypeError(f"no trigger is known for {type(event).__name__}")
    given = event.instruction
    if given.is_conversation_starter:
        return "starter"
    if given.requested:
        return "continue"
    return "round" if given.trigger_message_id is None else "reactive"
