"""Agents that call each other: when such a chain ends. Pure, decided from the transcript.

    Alice: @Claude …          a person begins
    Claude: … @Grok           calls Grok                      0 links behind it
    Grok: … @Claude           first link, calls Claude        1
    Claude: … @Grok           second link, calls nobody       2 = max_bot_chain: 🔁

A message's links are counted backwards: from it to the nearest one before it that calls its author, from there to the
nearest that calls that one's author, and so on, up to the last message of a person. What agents said because the
coordinator gave them the turn is no link, and it parts nothing either.

It ends always: each message calls an agent once, so between two messages of people the messages without a link behind
them are finitely many, hence those with one link, and so on up to the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

from agent_context.entries import Entry


def calls(entry: Entry, user_id: int) -> bool:
    """Whether an agent's message mentions a user or replies to one. Hidden ones and webhooks' call nobody."""
    if entry.speaker.kind != "agent" or entry.webhook or entry.hidden or entry.speaker.id == user_id:
        return False
    return user_id in entry.mentions or entry.replied_to == user_id


def spoken_before(message: Entry, entries: Sequence[Entry], instructed: Collection[int]) -> list[Entry]:
    """What agents said of themselves between the last person's message and this one, newest first. `entries` oldest
    first."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    among_agents = takewhile(lambda entry: entry.speaker.kind != "person", earlier)
    return [entry for entry in among_agents if entry.speaker.kind == "agent" and entry.id not in instructed]


def links(message: Entry, before: Sequence[Entry]) -> int:
    """How many calls lie behind a message; `before` is what `spoken_before` found."""
    count, current = 0, message
    for entry in before:
        if entry.speaker.id != current.speaker.id and calls(entry, current.speaker.id):
            count, current = count + 1, entry
    return count


def called_already(message: Entry, before: Sequence[Entry], user_id: int) -> bool:
    """Several messages in a row by one agent are one: it has called with an earlier one."""
    row = takewhile(lambda entry: entry.speaker.id == message.speaker.id, before)
    return any(calls(entry, user_id) for entry in row)


def last_person(message: Entry, entries: Sequence[Entry]) -> Entry | None:
    """Who set off the chain that a message stands in."""
    return next(
        (entry for entry in reversed(entries) if entry.id < message.id and entry.speaker.kind == "person"), None
    )
