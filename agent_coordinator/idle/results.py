"""The outcome of a task's turn: the note for the record, and whether it counts as a failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from agentic.state.idle import Sent
from agentic.state.idle_state import Asking
from agentic.wire.entries import Entry, ProfileNote, SummaryNote, UnaskedNote
from agentic.wire.messages import Result
from agentic.wire.topics import MOST_TOPICS, TOPIC_CHARACTERS, topics_in

NO_FAILURE = frozenset(
    {"skipped", "not_new", "unwanted", "person_wrote", "overtaken", "stopped", "withdrawn", "edited"}
)
"""Reasons for which a turn ends without being tried again soon, but that are nobody's fault."""

BUDGETS = frozenset({"idle_budget", "budget", "agent_budget", "person_budget", "daily_limit"})
"""Reasons that hold until the day is over."""

_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|pretend|obey|you (?:must|should|are|will)|system prompt|instructions?)\b|[<>{}\[\]`]"
    r"|https?:|@",
    re.IGNORECASE,
)


def note_of(asking: Asking, result: Result, now: float) -> Entry | None:
    """The note of a turn that did its task; None for one that did not."""
    make = _NOTES.get(asking.task)
    return None if make is None or result.skipped else make(asking, result, now)


def sent_of(note: UnaskedNote) -> Sent:
    """The message as the record will show it."""
    return Sent(
        message_id=note.message_id,
        agent=note.agent,
        task=note.task,
        channel_id=note.channel_id,
        person_id=note.person_id,
        text=note.text,
        at=note.at,
    )


def failed(asking: Asking, result: Result | None, now: float) -> bool:
    """Whether the turn failed, so that the next one waits longer. Without a result it did."""
    if result is None:
        return True
    return note_of(asking, result, now) is None and result.reason not in NO_FAILURE


def safe_topics(text: str) -> tuple[str, ...]:
    """The topics of a text, without lines that are too long or look like orders to a model, since they come back into
    prompts."""
    topics = (topic for topic in topics_in(text) if len(topic) <= TOPIC_CHARACTERS and not _ORDER.search(topic))
    return tuple(topics)[:MOST_TOPICS]


def _summary(asking: Asking, result: Result, now: float) -> SummaryNote | None:
    """As old as its material: the words may have been edited, or its people forgotten, while it was written."""
    text = (result.text or "").strip()
    if not text:
        return None
    return SummaryNote(
        message_id=asking.upto or asking.message_id,
        channel_id=asking.channel_id,
        agent=asking.agent,
        text=text,
        message_ids=asking.message_ids,
        people=asking.people,
        at=asking.read_at or now,
    )


def _profile(asking: Asking, result: Result, now: float) -> ProfileNote | None:
    """Without any topic too, so that the same messages are not read again."""
    if asking.person_id is None:
        return None
    topics, at = safe_topics(result.text or ""), asking.read_at or now
    return ProfileNote(
        user_id=asking.person_id,
        name=asking.person_name,
        topics=topics,
        upto=asking.upto,
        message_ids=asking.message_ids,
        at=at,
    )


def _unasked(asking: Asking, result: Result, now: float) -> UnaskedNote | None:
    if result.message_id is None:
        return None
    return UnaskedNote(
        message_id=result.message_id,
        agent=asking.agent,
        task=asking.task,
        channel_id=asking.channel_id,
        person_id=asking.person_id,
        cause=asking.cause,
        text=result.text or "",
        at=now,
    )


_NOTES: Mapping[str, Callable[[Asking, Result, float], Entry | None]] = {
    "summarise": _summary,
    "profile": _profile,
    "follow_up": _unasked,
    "discover": _unasked,
}
