"""Stage 4: join consecutive messages of one bot with a space, under the first one's id.

A service takes so many characters a message, so an answer often spans several. Hidden messages are removed before
this stage, so none of them separates parts. A reply to a later part is shown as one to the joined message.
`Entry.parts` keeps the messages, so that each id can still be found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agentic.context.entries import Entry, Reaction, Speaker

SEPARATOR = " "


def joined(entries: Iterable[Entry]) -> list[Entry]:
    """Join what belongs together. `entries` are oldest first."""
    found: list[Entry] = []
    groups: dict[int, list[Entry]] = {}  # of more than one, by their place among what is found
    before: Speaker | None = None
    for entry in entries:
        speaker = entry.speaker
        if before is not None and speaker.kind != "person" and _same_bot(before, speaker):
            groups.setdefault(len(found) - 1, [found[-1]]).append(entry)
        else:
            found.append(entry)
        before = speaker
    if not groups:
        return found
    for place, group in groups.items():
        found[place] = join(group)
    aliases = {part.id: group[0].id for group in groups.values() for part in group[1:]}
    return [_readdressed(entry, aliases) if entry.reply_to in aliases else entry for entry in found]


def join(parts: Sequence[Entry]) -> Entry:
    """Return one or more messages as one: texts joined by a space, files and reactions united."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return replace(
        first,
        text=SEPARATOR.join(part.text.strip() for part in parts if part.text.strip()),
        attachments=tuple(file for part in parts for file in part.attachments),
        extras=tuple(line for part in parts for line in part.extras),
        reactions=_united(reaction for part in parts for reaction in part.reactions),
        mentions=frozenset().union(*(part.mentions for part in parts)),
        edited=any(part.edited for part in parts),
        parts=tuple(parts),
    )


def holder_of(entries: Iterable[Entry], message_id: int) -> Entry | None:
    """Return the entry that shows a message, which may be one of its parts."""
    return next((entry for entry in entries if any(unit.id == message_id for unit in entry.units)), None)


def _same_bot(one: Speaker, other: Speaker) -> bool:
    """Whether both are the same bot. An agent is itself under any account or webhook; a webhook is another one under
    another name."""
    if one.agent != other.agent:
        return False
    return other.agent is not None or (one.id, one.name) == (other.id, other.name)


def _united(reactions: Iterable[Reaction]) -> tuple[Reaction, ...]:
    by_emoji: dict[str, Reaction] = {}
    for reaction in reactions:
        before = by_emoji.get(reaction.emoji, Reaction(reaction.emoji, (), 0, by_person=False))
        names = tuple(dict.fromkeys((*before.by, *reaction.by)))
        by_person = before.by_person or reaction.by_person
        by_emoji[reaction.emoji] = Reaction(reaction.emoji, names, before.count + reaction.count, by_person)
    return tuple(by_emoji.values())


def _readdressed(entry: Entry, aliases: Mapping[int, int]) -> Entry:
    return replace(entry, reply_to=aliases[entry.reply_to or 0])
