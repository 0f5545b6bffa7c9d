"""Stage 2: replace `.history` messages by the intervals that they name.

    a  b  .history(X)  c  d    →    a  b  X  |  c  d        the part before | is the prefix: it does not roll
    a  b  .history     c  d    →    c  d                    without an interval: everything before it is dropped

Intervals may contain `.history` messages too, down to LEVELS; one that leads back to itself is ignored. A thread begins
with an implied one: its parent up to the message that it branched from, unless it begins with a `.history` of its own.
Nothing is fetched here: `lookup` returns what was fetched, and `needed` says what is missing, level by level, until
nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agentic.context.commands import CommandProblem, History, Malformed, is_for, parse_command
from agentic.context.entries import Entry
from agentic.context.pins import may_command

LEVELS = 5


@dataclass(frozen=True, slots=True)
class Interval:
    """Messages of a channel up to `last`, from `first` on, or (None) as far as the context reaches."""

    channel_id: int
    first: int | None
    last: int


Lookup = Callable[[Interval], Sequence[Entry] | None]
"""What was fetched for an interval: the messages up to `last`, oldest first, as many as the context is deep. None:
nothing was fetched, or it cannot be read."""


def nothing_fetched(_: Interval) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSource:
    """Stage 1: the known messages of a channel, oldest first.

    `parent`: the messages of a thread's parent channel. `branched_from`: the message there (or the thread's own id,
    which is as old).
    """

    channel_id: int
    entries: Sequence[Entry]
    lookup: Lookup = nothing_fetched
    parent_id: int = 0
    parent: Sequence[Entry] = ()
    branched_from: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`prefix`: messages from `.history`, or before it. `entries`: the channel's own messages since."""

    prefix: tuple[Entry, ...]
    entries: tuple[Entry, ...]


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
                interval = Interval(command.last.channel, self.first(command), command.last.message)
                found = self.interval(interval, level + 1, (*inside, entry.id))
                if found is not None:
                    prefix, body = [*prefix, *body, *found], []
        return Resolved(tuple(prefix), tuple(body))

    def command(self, entry: Entry) -> History | None:
        if not entry.hidden or ".history" not in entry.text or not may_command(entry, self.roles):
            return None
        command = parse_command(entry.text)
        return command if isinstance(command, History) and is_for(command, self.names) else None

    def first(self, command: History) -> int | None:
        """Return the beginning. One in another channel than `last` is never reached and therefore ignored."""
        same = command.first is not None and command.last is not None and command.first.channel == command.last.channel
        return command.first.message if same and command.first is not None else None

    def interval(self, interval: Interval, level: int, inside: tuple[object, ...]) -> list[Entry] | None:
        if interval in inside:
            return None
        found = self.source.lookup(interval)
        if found is None:
            found = self.known(interval)
        if not found:
            return None
        resolved = self.resolve(_sliced(found, interval, self.messages), level, (*inside, interval))
        return [*resolved.prefix, *resolved.entries]

    def known(self, interval: Interval) -> Sequence[Entry]:
        """Return the channel's or its parent's own messages. If they are not complete they are noted as lacking: the
        oldest drop out of a record, so its first message need not be an interval's."""
        own = {self.source.channel_id: self.source.entries, self.source.parent_id: self.source.parent}
        upto = [entry for entry in own.get(interval.channel_id, ()) if entry.id <= interval.last]
        if len(upto) < self.messages and interval.first not in {entry.id for entry in upto}:
            self.lacking[interval] = None
        return upto

    def whole(self) -> Resolved:
        source = self.source
        if source.branched_from is None and not [e for e in source.entries if e.hidden and ".history" in e.text]:
            return Resolved((), tuple(source.entries))  # the usual case
        begins_with_command = bool(source.entries) and self.command(source.entries[0]) is not None
        implied = () if begins_with_command else self.implied()
        found = self.resolve(source.entries, 0, (), implied)
        own = {entry.id for entry in found.entries}
        return Resolved(tuple({e.id: e for e in found.prefix if e.id not in own}.values()), found.entries)

    def implied(self) -> Sequence[Entry]:
        """Return what a thread begins with."""
        source, last = self.source, self.source.branched_from
        if last is None:
            return ()
        return self.interval(Interval(source.parent_id, None, last), 1, ()) or ()


def malformed(entries: Iterable[Entry], *, roles: Collection[int], names: Collection[str]) -> Iterator[CommandProblem]:
    """Yield the problems of `.history` messages for a bot that goes by `names`, from people who may write them."""
    for entry in entries:
        if entry.hidden and ".history" in entry.text and may_command(entry, roles):
            command = parse_command(entry.text)
            if isinstance(command, Malformed) and command.command == "history" and is_for(command, names):
                yield CommandProblem(entry.id, "history", (command.reason,))


def _sliced(entries: Sequence[Entry], interval: Interval, messages: int) -> Sequence[Entry]:
    """Return the newest `messages` up to `last`, from `first` on if it is among them."""
    upto = [entry for entry in entries if entry.id <= interval.last][-messages:]
    ids = [entry.id for entry in upto]
    return upto[ids.index(interval.first) :] if interval.first in ids else upto


def resolve_history(
    source: ChannelSource, *, roles: Collection[int], names: Collection[str], messages: int
) -> Resolved:
    """Stages 1 and 2 for a bot that goes by `names`. `roles` may command (none: people who may manage messages);
    `messages` is how deep an interval may be."""
    return _Resolver(source, roles, names, messages).whole()


def needed(
    source: ChannelSource, *, roles: Collection[int], names: Collection[str], messages: int
) -> tuple[Interval, ...]:
    """Return the intervals that `source.lookup` lacks, as far as known now. Fetch each (the newest `messages` up to
    `last`) and ask again, until nothing is lacking or nothing more can be fetched.

    The caller must check that the bot, and everybody in the channel, may read there.
    """
    resolver = _Resolver(source, roles, names, messages)
    resolver.whole()
    return tuple(resolver.lacking)
