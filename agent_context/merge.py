"""The coordinator's record of a conversation, merged into the channel's transcript by message id.

What the transcript has is not repeated; what it lacks (a bot that runs elsewhere, a message not seen yet) is put in
at its place. A record without an id keeps its place after the record before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from agent_context.entries import Entry, Speaker
from agent_context.untrusted import one_line

MAX_NAME = 32  # characters of an agent that this process does not know
DISCORD_EPOCH = 1420070400.0  # seconds; a snowflake's upper bits count milliseconds from here


class Record(Protocol):
    """A history entry of the wire, as far as merging needs it."""

    @property
    def agent(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def message_id(self) -> int | None: ...


def snowflake_time(snowflake: int) -> float:
    """Unix seconds at which a Discord id was made (discord.com/developers/docs/reference#snowflakes)."""
    return (snowflake >> 22) / 1000 + DISCORD_EPOCH


def merge_history(
    entries: Sequence[Entry], history: Iterable[Record], names: Mapping[str, str], deleted: Iterable[int] = ()
) -> tuple[Entry, ...]:
    """`entries` oldest first with the lacking records in their places; `names` maps agents' keys to shown names.

    Records of messages in `deleted` are left out: they were taken back.
    """
    known = {entry.id for entry in entries} | set(deleted)
    lacking: list[Entry] = []
    previous = 0
    for record in history:
        if record.message_id is not None and record.message_id in known:
            previous = record.message_id
            continue
        if not record.text:
            continue
        entry_id = record.message_id or previous + 1
        previous = entry_id
        name = names.get(record.agent) or one_line(record.agent, MAX_NAME)
        speaker = Speaker(0, name, "agent", record.agent)
        lacking.append(Entry(entry_id, speaker, record.text, snowflake_time(entry_id)))
    if not lacking:
        return tuple(entries)
    return tuple(sorted([*entries, *lacking], key=lambda entry: entry.id))
