"""Stage 4: consecutive messages of one bot are one message, joined by a space, under the first one's id.

Discord takes 2,000 characters, so what a bot says often comes in several messages. Hidden messages are gone before
this stage, so none of them parts what belongs together. A reply to a later part is shown as one to the joined message;
`Entry.parts` keeps the messages themselves, so that an id of any of them can be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from agent_context.entries import Entry, Reaction, Speaker

SEPARATOR = " "


def joined(entries: Iterable[Entry]) -> list[Entry]:
    """`entries` oldest first, what belongs together as one."""
    entries = list(entries)
    if not any(_goes_on(before, entry) for before, entry in pairwise(entries)):
        return entries
    groups = list(_groups(entries))
    aliases = {part.id: group[0].id for group in groups for part in group[1:]}
    return [_readdressed(join(group), aliases) for group in groups]


def join(parts: Sequence[Entry]) -> Entry:
    """One or more messages as one: texts with a space between them, files and reactions united."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return replace(
        first,
        text=SEPARATOR.join(part.text.strip() for part in parts if part.text.strip()),
        attachments=tuple(file for part in parts for file in part.attachments),
        reactions=_united(reaction for part in parts for reaction in part.reactions),
        mentions=frozenset().union(*(part.mentions for part in parts)),
        edited=any(part.edited for part in parts),
        parts=tuple(parts),
    )


def holder_of(entries: Iterable[Entry], message_id: int) -> Entry | None:
    """The entry that shows a message, be it a later part of it."""
    return next((entry for entry in entries if any(unit.id == message_id for unit in entry.units)), None)


def _groups(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    group: list[Entry] = []
    for entry in entries:
        if group and _goes_on(group[0], entry):
            group.append(entry)
            continue
        if group:
            yield group
        group = [entry]
    if group:
        yield group


def _goes_on(before: Entry, entry: Entry) -> bool:
    """The same bot speaks once more."""
    return entry.speaker.kind != "person" and _who(entry.speaker) == _who(before.speaker)


def _who(speaker: Speaker) -> object:
    """An agent is itself, whichever account or webhook it speaks by; a webhook is somebody else under another name."""
    return speaker.agent or (speaker.id, speaker.name)


def _united(reactions: Iterable[Reaction]) -> tuple[Reaction, ...]:
    by_emoji: dict[str, Reaction] = {}
    for reaction in reactions:
        before = by_emoji.get(reaction.emoji, Reaction(reaction.emoji, (), 0))
        names = tuple(dict.fromkeys((*before.by, *reaction.by)))
        by_emoji[reaction.emoji] = Reaction(reaction.emoji, names, before.count + reaction.count)
    return tuple(by_emoji.values())


def _readdressed(entry: Entry, aliases: dict[int, int]) -> Entry:
    shown = aliases.get(entry.reply_to or 0)
    return entry if shown is None else replace(entry, reply_to=shown)
