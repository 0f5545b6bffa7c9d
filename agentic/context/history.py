"""Select a channel's messages: resolve `.history`, join a bot's consecutive messages, merge the coordinator's record.

Stages 1 and 2 replace `.history` messages by the intervals that they name:

    a  b  .history(X)  c  d    →    a  b  X  |  c  d        the part before | is the prefix: it does not roll
    a  b  .history     c  d    →    c  d                    without an interval: everything before it is dropped

Intervals may contain `.history` messages too, down to LEVELS; loops are ignored. A thread has an implied `.history` at
its beginning: its parent up to the message that it branched from, unless it begins with its own `.history`. Nothing is
fetched here: `lookup` returns fetched messages, and `needed` returns what is missing, level by level.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentic.context.commands import CommandProblem, History, Malformed, is_for, parse_command
from agentic.context.entries import Entry, Reaction, Speaker, one_line
from agentic.context.options import may_command
from agentic.ids import sent_at
from agentic.wire.messages import HistoryEntry

LEVELS = 5
MAX_NAME = 32  # characters of the name of an unknown agent
_REACTIONS = re.compile(r"  \[reactions: ([^\[\]\n]{1,2000})\]\Z")
_BY = re.compile(r"(\S{1,60}) \(([^()\s]{1,60})\)")
_SELECTOR = "\ufe0f"


@dataclass(frozen=True, slots=True)
class Interval:
    """Messages of a channel from `first` (None: as far as the context reaches) to `last`."""

    channel_id: int
    first: int | None
    last: int


Lookup = Callable[[Interval], Sequence[Entry] | None]
"""Returns the messages fetched for an interval, up to `last`, oldest first, as many as the context is deep. None if
nothing was fetched, or the channel can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSource:
    """Stage 1: the known messages of a channel, oldest first.

    `parent`: the messages of a thread's parent channel. `branched_from`: the message there (or the thread's own id,
    which is as old).
    """

    channel_id: int
    entries: Sequence[Entry]
    lookup: Lookup = lambda _: None
    parent_id: int = 0
    parent: Sequence[Entry] = ()
    branched_from: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`prefix`: messages from `.history`, or before it. `entries`: the channel's own messages since."""

    prefix: tuple[Entry, ...]
    entries: tuple[Entry, ...]


def resolve_history(
    source: ChannelSource, *, roles: Collection[int], names: Collection[str], messages: int
) -> Resolved:
    """Stages 1 and 2 for a bot that goes by `names`. `roles` may command (none: people who may manage messages);
    `messages` is how deep an interval may be."""
    return _Resolver(source, roles, names, messages).whole()


def needed(
    source: ChannelSource, *, roles: Collection[int], names: Collection[str], messages: int
) -> tuple[Interval, ...]:
    """Return the intervals that `source.lookup` is known to lack. Fetch each (the newest `messages` up to `last`) and
    ask again, until nothing is missing or nothing more can be fetched.

    The caller must check that the bot and everyone in the channel may read there.
    """
    resolver = _Resolver(source, roles, names, messages)
    resolver.whole()
    return tuple(resolver.lacking)


@dataclass(slots=True)
class _Resolver:
    source: ChannelSource
    roles: Collection[int]
    names: Collection[str]
    messages: int  # how many of an interval
    lacking: dict[Interval, None] = field(default_factory=dict)  # in the order in which they were met

    def resolve(
        self, entries: Sequence[Entry], level: int, inside: tuple[object, ...], before: Sequence[Entry] = ()
    ) -> Resolved:
        """Resolve `entries`, which `before` precedes. `inside`: the commands and intervals that led here."""
        prefix, body = list(before), list[Entry]()
        for entry in entries:
            command = self.command(entry)
            if command is None:
                body.append(entry)
            elif command.last is None:
                prefix, body = [], []
            elif level < LEVELS and entry.id not in inside:
                first, last = command.first, command.last
                reached = first is not None and first.channel == last.channel  # else it is ignored
                interval = Interval(last.channel, first.message if first and reached else None, last.message)
                found = self.interval(interval, level + 1, (*inside, entry.id))
                if found is not None:
                    prefix, body = [*prefix, *body, *found], []
        return Resolved(tuple(prefix), tuple(body))

    def command(self, entry: Entry) -> History | None:
        if not entry.hidden or ".history" not in entry.text or not may_command(entry, self.roles):
            return None
        command = parse_command(entry.text)
        return command if isinstance(command, History) and is_for(command, self.names) else None

    def interval(self, interval: Interval, level: int, inside: tuple[object, ...]) -> list[Entry] | None:
        if interval in inside:
            return None
        found = self.source.lookup(interval)
        if found is None:  # the channel's or its parent's own messages
            own = {self.source.channel_id: self.source.entries, self.source.parent_id: self.source.parent}
            found = [entry for entry in own.get(interval.channel_id, ()) if entry.id <= interval.last]
            # the oldest drop out of a record, so its first message need not be an interval's
            if len(found) < self.messages and interval.first not in {entry.id for entry in found}:
                self.lacking[interval] = None
        if not found:
            return None
        upto = [entry for entry in found if entry.id <= interval.last][-self.messages :]
        ids = [entry.id for entry in upto]
        sliced = upto[ids.index(interval.first) :] if interval.first in ids else upto
        resolved = self.resolve(sliced, level, (*inside, interval))
        return [*resolved.prefix, *resolved.entries]

    def whole(self) -> Resolved:
        source = self.source
        if source.branched_from is None and not [e for e in source.entries if e.hidden and ".history" in e.text]:
            return Resolved((), tuple(source.entries))  # the usual case
        begins_with_command = bool(source.entries) and self.command(source.entries[0]) is not None
        implied: Sequence[Entry] | None = None  # what a thread begins with
        if source.branched_from is not None and not begins_with_command:
            implied = self.interval(Interval(source.parent_id, None, source.branched_from), 1, ())
        found = self.resolve(source.entries, 0, (), implied or ())
        own = {entry.id for entry in found.entries}
        return Resolved(tuple({e.id: e for e in found.prefix if e.id not in own}.values()), found.entries)


def malformed(entries: Iterable[Entry], *, roles: Collection[int], names: Collection[str]) -> Iterator[CommandProblem]:
    """Yield the problems of `.history` messages for a bot that goes by `names`, from people who may write them."""
    for entry in entries:
        if entry.hidden and ".history" in entry.text and may_command(entry, roles):
            command = parse_command(entry.text)
            if isinstance(command, Malformed) and command.command == "history" and is_for(command, names):
                yield CommandProblem(entry.id, "history", (command.reason,))


def join_consecutive(entries: Iterable[Entry]) -> list[Entry]:
    """Stage 4: join consecutive messages of one bot with a space, under the first one's id. `entries` are oldest first.

    Services limit the characters of a message, so an answer often has several. Hidden messages are removed before this
    stage, so they don't separate parts. A reply to a later part is shown as a reply to the joined message.
    `Entry.parts` keeps the messages, so that each id can still be found.
    """
    found: list[Entry] = []
    groups: dict[int, list[Entry]] = {}  # of more than one, by their place among what is found
    before: object = None
    for entry in entries:
        speaker = entry.speaker
        # An agent is itself under any account or webhook; a webhook is another one under another name.
        who = speaker.agent or (speaker.id, speaker.name)
        if before == who and speaker.kind != "person":
            groups.setdefault(len(found) - 1, [found[-1]]).append(entry)
        else:
            found.append(entry)
        before = who
    if not groups:
        return found
    for place, group in groups.items():
        found[place] = join(group)
    aliases = {part.id: group[0].id for group in groups.values() for part in group[1:]}
    return [replace(e, reply_to=aliases[e.reply_to]) if e.reply_to in aliases else e for e in found]


def join(parts: Sequence[Entry]) -> Entry:
    """Return one or more messages as one: texts joined by a space, files and reactions united."""
    first = parts[0]
    if len(parts) == 1:
        return first
    by_emoji: dict[str, Reaction] = {}
    for reaction in (reaction for part in parts for reaction in part.reactions):
        before = by_emoji.get(reaction.emoji, Reaction(reaction.emoji, (), 0, by_person=False))
        names = tuple(dict.fromkeys((*before.by, *reaction.by)))
        by_person = before.by_person or reaction.by_person
        by_emoji[reaction.emoji] = Reaction(reaction.emoji, names, before.count + reaction.count, by_person)
    return replace(
        first,
        text=" ".join(part.text.strip() for part in parts if part.text.strip()),
        attachments=tuple(file for part in parts for file in part.attachments),
        extras=tuple(line for part in parts for line in part.extras),
        reactions=tuple(by_emoji.values()),
        addressees=replace(first.addressees, mentions=frozenset().union(*(part.addressees.mentions for part in parts))),
        edited=any(part.edited for part in parts),
        parts=tuple(parts),
    )


def holder_of(entries: Iterable[Entry], message_id: int) -> Entry | None:
    """Return the entry that shows a message, which may be one of its parts."""
    for entry in entries:
        if message_id in [unit.id for unit in entry.parts or (entry,)]:
            return entry
    return None


def merge_history(
    entries: Sequence[Entry], history: Iterable[HistoryEntry], names: Mapping[str, str], deleted: Iterable[int] = ()
) -> tuple[Entry, ...]:
    """Merge the coordinator's record of a conversation into the channel's `entries`, by message id, oldest first.

    Messages that the transcript lacks (of a bot that runs elsewhere, or not seen yet) are inserted in order, a record
    without an id after the record before it. A record names the agents that reacted (`Tea [reactions: 🔥 (grok)]`); if
    the transcript only has their number, the names are added. `names` maps agents' keys to shown names. Records of
    messages in `deleted` are dropped.
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
    if not entry.reactions or (found := _REACTIONS.search(recorded)) is None:
        return entry
    by = [(emoji.replace(_SELECTOR, ""), _name(agent, names)) for emoji, agent in _BY.findall(found[1])]

    def with_names(reaction: Reaction) -> Reaction:
        emoji = reaction.emoji.replace(_SELECTOR, "")
        others = [name for one, name in by if one == emoji and name not in reaction.by]
        nameless = max(0, reaction.count - len(reaction.by))
        return replace(reaction, by=(*reaction.by, *others[:nameless])) if others and nameless else reaction

    return replace(entry, reactions=tuple(map(with_names, entry.reactions)))


def _name(agent: str, names: Mapping[str, str]) -> str:
    return names.get(agent) or one_line(agent, MAX_NAME)
