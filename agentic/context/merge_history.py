"""Merge the coordinator's record of a conversation into the channel's transcript, by message id.

Messages in the transcript are not repeated; missing ones (of a bot that runs elsewhere, or not seen yet) are inserted
in order. A record without an id stays after the record before it. A record names the agents that reacted (`Hot take
[reactions: 🔥 (grok)]`); where the transcript only has their number, the names are added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from agentic.context.entries import Entry, Reaction, Speaker
from agentic.context.untrusted import one_line
from agentic.ids import sent_at

MAX_NAME = 32  # characters of an agent that this process does not know


_REACTIONS = re.compile(r"  \[reactions: ([^\[\]\n]{1,2000})\]\Z")
_BY = re.compile(r"(\S{1,60}) \(([^()\s]{1,60})\)")
_SELECTOR = "\ufe0f"


class Record(Protocol):
    """A history entry of the wire, as far as merging needs it."""

    @property
    def agent(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def message_id(self) -> int | None: ...


def merge_history(
    entries: Sequence[Entry], history: Iterable[Record], names: Mapping[str, str], deleted: Iterable[int] = ()
) -> tuple[Entry, ...]:
    """Insert the missing records into `entries`, oldest first. `names` maps agents' keys to shown names.

    Records of messages in `deleted` are dropped.
    """
    shown = {entry.id: entry for entry in entries}
    known = shown.keys() | set(deleted)
    lacking: list[Entry] = []
    previous = 0
    for record in history:
        if record.message_id is not None and record.message_id in known:
            previous = record.message_id
            if previous in shown:
                shown[previous] = _attributed(shown[previous], record.text, names)
            continue
        if not record.text:
            continue
        entry_id = record.message_id or previous + 1
        previous = entry_id
        speaker = Speaker(0, _name(record.agent, names), "agent", record.agent)
        lacking.append(Entry(entry_id, speaker, record.text, sent_at(entry_id)))
    if not lacking:
        return tuple(shown.values())
    return tuple(sorted([*shown.values(), *lacking], key=lambda entry: entry.id))


def _attributed(entry: Entry, recorded: str, names: Mapping[str, str]) -> Entry:
    """Return the entry with the agents that the record names, for reactions whose authors are unknown."""
    found = _REACTIONS.search(recorded) if entry.reactions else None
    by = (
        [(emoji.replace(_SELECTOR, ""), _name(agent, names)) for emoji, agent in _BY.findall(found[1])] if found else []
    )
    if not by:
        return entry

    def with_names(reaction: Reaction) -> Reaction:
        emoji = reaction.emoji.replace(_SELECTOR, "")
        others = [name for one, name in by if one == emoji and name not in reaction.by]
        nameless = max(0, reaction.count - len(reaction.by))
        return replace(reaction, by=(*reaction.by, *others[:nameless])) if others and nameless else reaction

    return replace(entry, reactions=tuple(map(with_names, entry.reactions)))


def _name(agent: str, names: Mapping[str, str]) -> str:
    return names.get(agent) or one_line(agent, MAX_NAME)
