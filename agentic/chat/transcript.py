"""The transcript of each channel: its messages and pins, kept true by gateway events, shared by all bots of a process.

For a complete transcript nothing is read and nothing awaited. Otherwise the history is read once for all bots, and a
turn waits for it a short while (agentic.services.discord.history). Every bot of the process delivers the same gateway
events, so each operation here may be repeated without harm, in any order: a deletion leaves a mark, since another bot's
event may bring the message later.

Pinned messages are kept apart, since a pin may be older than the transcript. The gateway brings a message that is
pinned, unpinned, or edited as a whole. Apart from that, it only says that a channel's pins have changed, not how. So
each such event makes the list stale, and the next turn reads it again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentic.chat.directory import Directory
from agentic.context.entries import Entry, Reaction, Speaker, is_mark

MAX_PINS = 250  # Discord's own limit for a channel
MAX_ENTRIES = 400  # messages kept a channel, unless a turn asks for more
MAX_DEPTH = 5000  # and never more than these
STEP = 4  # a transcript exceeds its depth by this part of it before it is cut back
MAX_MARKS = 500  # deleted ids remembered a channel, and what posts answer
MAX_QUOTED = 100  # messages that replies refer to and that aren't in the transcript, a channel
MAX_CHANNELS = 2000


Watcher = Callable[[int, int], None]  # a channel and a message of it


class Pins:
    """The pinned messages of one channel. `known` while the list is complete."""

    def __init__(self) -> None:
        self.known = False
        self.changes = 0  # events that made it doubtful
        self.entries: dict[int, Entry] = {}

    def put(self, entry: Entry) -> None:
        """Add a pinned message, and remove one that is no longer pinned."""
        if entry.pinned:
            self.entries[entry.id] = entry
            if len(self.entries) > MAX_PINS:
                del self.entries[min(self.entries)]
        else:
            self.entries.pop(entry.id, None)

    def mark_stale(self) -> None:
        self.known = False
        self.changes += 1


@dataclass(slots=True)
class ReactionCount:
    """The reactions with one emoji to one message, counted over events that come more than once. `base` counts the ones
    that were there when the message was read, by people without known names."""

    base: int = 0
    named: dict[int, str] = field(default_factory=dict)  # given since
    bots: set[int] = field(default_factory=set)  # of the named
    gone: set[int] = field(default_factory=set)  # of the base, removed since

    def add(self, user_id: int, name: str, *, bot: bool) -> bool:
        """Add one; return whether that changed something."""
        if bot:
            self.bots.add(user_id)
        if user_id in self.gone:
            self.gone.discard(user_id)
            return True
        known = self.named.get(user_id)
        self.named[user_id] = name
        return known != name

    def remove(self, user_id: int) -> bool:
        """Remove one; return whether that changed something."""
        if self.named.pop(user_id, None) is not None:
            return True
        if user_id in self.gone or self.base <= len(self.gone):
            return False
        self.gone.add(user_id)
        return True

    @property
    def count(self) -> int:
        return self.base - len(self.gone) + len(self.named)

    @property
    def by_person(self) -> bool:
        return self.base > len(self.gone) or not self.named.keys() <= self.bots


class Transcript:
    """The messages of a channel, oldest first, and its pinned ones, however old.

    At least the newest `depth` are kept. The oldest are dropped in steps: if they are part of a prompt (a prefix before
    `.history`, a thread's beginning), dropping one with each message would change the provider's cached text. `report`
    is called as `Transcripts.watch` says.
    """

    def __init__(self, channel_id: int, depth: int = MAX_ENTRIES, report: Watcher | None = None) -> None:
        self.channel_id = channel_id
        self._report = report
        self.depth = depth
        self.is_complete = False
        self.begins = False  # the oldest entry is the channel's first message
        self.was_complete = False  # nothing is missing but a gap at the end
        self.gap_after = 0  # the newest message before that gap
        self._ids: list[int] = []
        self._entries: dict[int, Entry] = {}
        self._counts: dict[int, dict[str, ReactionCount]] = {}
        self._listed: Sequence[Entry] | None = None  # what `entries` returned, until something changes
        self._deleted: OrderedDict[int, None] = OrderedDict()
        self._answered: OrderedDict[int, int] = OrderedDict()
        self._quoted: OrderedDict[int, Entry] = OrderedDict()
        self.pins = Pins()

    def __contains__(self, message_id: int) -> bool:
        return message_id in self._entries

    def __len__(self) -> int:
        return len(self._ids)

    def has(self, message_id: int) -> bool:
        """Return whether the message is among the newest or the pinned messages."""
        return message_id in self._entries or message_id in self.pins.entries

    @property
    def newest(self) -> int:
        return self._ids[-1] if self._ids else 0

    @property
    def deleted(self) -> Collection[int]:
        """Return the ids of deleted messages, the newest `MAX_MARKS`."""
        return self._deleted.keys()

    def person_spoke_after(self, message_id: int) -> bool:
        newer = (self._entries[i] for i in self._ids[bisect_right(self._ids, message_id) :])
        return any(entry.speaker.kind == "person" for entry in newer)

    def deepen(self, depth: int) -> None:
        """Raise the depth to this many messages; a transcript that isn't that deep is no longer complete."""
        depth = min(depth, MAX_DEPTH)
        if depth <= self.depth:
            return
        self.depth = depth
        if not self.begins:
            self.is_complete = self.was_complete = False

    def note_gap(self) -> None:
        if self.is_complete:
            self.was_complete, self.gap_after = True, self.newest
        self.is_complete = False

    def get(self, message_id: int) -> Entry | None:
        entry = self._entries.get(message_id)
        return entry if entry is None or not self._counts else self._with_reactions(entry)

    def entries(self) -> Sequence[Entry]:
        """Return all entries, oldest first, with their present reactions. Cached: a turn asks several times."""
        if self._listed is None:
            found = [self._entries[i] for i in self._ids]
            self._listed = list(map(self._with_reactions, found)) if self._counts else found
        return self._listed

    def speakers(self) -> Iterator[Speaker]:
        return (self._entries[i].speaker for i in self._ids)

    def last(self, count: int) -> list[Entry]:
        """Return the newest entries, at most `count`, oldest first and without reactions."""
        return [self._entries[i] for i in self._ids[-count:]] if count > 0 else []

    def note_answers(self, message_ids: Collection[int], answered: int) -> None:
        """Note that our posts answer a message, even if they don't show it as a reply."""
        for message_id in message_ids:
            if self._answered.get(message_id) != answered:
                self._answered[message_id] = answered
                self._changed(message_id)
        while len(self._answered) > MAX_MARKS:
            self._answered.popitem(last=False)

    def parent_of(self, entry: Entry) -> int | None:
        """Return the message that an entry replies to, or is known to answer."""
        return entry.reply_to if entry.reply_to is not None else self._answered.get(entry.id)

    def quote(self, entry: Entry) -> None:
        """Keep a message that a reply refers to, as the service sent it, if the transcript lacks it."""
        if entry.id in self._entries or entry.id in self._deleted or _is_empty(entry):
            return
        self._quoted[entry.id] = entry
        self._quoted.move_to_end(entry.id)
        if len(self._quoted) > MAX_QUOTED:
            self._quoted.popitem(last=False)

    def quoted(self, message_id: int) -> Entry | None:
        """Return a message of the transcript, or a quoted message."""
        return self.get(message_id) or self._quoted.get(message_id)

    def lacks_text(self, message_id: int) -> bool:
        """Return whether a message came through a bot without the message content intent; another bot may bring its
        text."""
        return _is_empty(self._entries[message_id])

    def add(self, entry: Entry) -> None:
        """Add a new message. A known one stays as it is, a deleted one stays away."""
        if entry.id in self._entries and self.lacks_text(entry.id):
            self._put(replace(entry, reactions=()))
            return
        if entry.id in self._entries or entry.id in self._deleted:
            return
        if self._ids and entry.id < self._ids[0] and len(self._ids) >= self.depth:
            self.begins = False
            return
        self._entries[entry.id] = replace(entry, reactions=()) if entry.reactions else entry
        self._quoted.pop(entry.id, None)
        if entry.reactions:
            self._counts[entry.id] = {r.emoji: ReactionCount(base=r.count) for r in entry.reactions}
        if entry.pinned:
            self.pins.put(entry)
        insort(self._ids, entry.id)
        self._changed(entry.id)
        if len(self._ids) > self.depth + self.depth // STEP:
            self.cut_back(self._ids[-self.depth])

    def revise(self, entry: Entry) -> None:
        """Update a message after an edit, a pin, or an unpin. Its author and time stay."""
        known = self._entries.get(entry.id) or self._quoted.get(entry.id) or self.pins.entries.get(entry.id)
        if known is not None:
            entry = revised(known, entry)
            if entry.id in self._entries:
                self._put(entry)
            elif entry.id in self._quoted:
                self._quoted[entry.id] = entry
        if entry.id not in self._deleted:
            self.pins.put(entry)

    def renew_addresses(self, message_id: int, addresses: Mapping[int, str]) -> None:
        """Replace the addresses of a message's files, by file id. Nobody is told, since the message stays the same."""
        for known in (self._entries, self.pins.entries):
            if message_id in known:
                known[message_id] = known[message_id].with_addresses(addresses)
        self._listed = None

    def keep_pins(self, entries: Sequence[Entry]) -> None:
        there = {entry.id for entry in entries}
        for message_id, entry in self._entries.items():
            if entry.pinned != (message_id in there):
                self._entries[message_id] = replace(entry, pinned=message_id in there)
        self._listed = None
        self.pins.entries = {}
        for entry in entries:
            known = self._entries.get(entry.id)
            if known is not None:  # REST sends less about an author than the gateway did
                entry = replace(revised(known, entry), pinned=True)
            if entry.id not in self._deleted:
                self.pins.entries[entry.id] = entry

    def pinned(self) -> list[Entry]:
        return [self.pins.entries[message_id] for message_id in sorted(self.pins.entries)]

    def cut_back(self, first: int) -> None:
        for message_id in self._ids[: bisect_left(self._ids, first)]:
            self._forget(message_id)
        self.begins = False

    def delete(self, message_id: int) -> None:
        new = message_id not in self._deleted
        self._deleted[message_id] = None
        if len(self._deleted) > MAX_MARKS:
            self._deleted.popitem(last=False)
        self.pins.entries.pop(message_id, None)
        self._quoted.pop(message_id, None)
        if message_id in self._entries:
            self._forget(message_id)
        if new:
            self._changed(message_id)

    def react(self, message_id: int, emoji: str, user_id: int, name: str, *, bot: bool = False) -> None:
        if message_id not in self._entries:
            return
        if self._counts.setdefault(message_id, {}).setdefault(emoji, ReactionCount()).add(user_id, name, bot=bot):
            self._changed(message_id)

    def unreact(self, message_id: int, emoji: str, user_id: int, *, bot: bool = False) -> None:
        """Remove a reaction. Of the reactions that were there when the message was read, only people's are counted
        (agentic.services.discord.view)."""
        count = self._counts.get(message_id, {}).get(emoji)
        counts = count is not None and (user_id in count.named or not (bot and is_mark(emoji)))
        if count is not None and counts and count.remove(user_id):
            self._changed(message_id)

    def clear_reactions(self, message_id: int, emoji: str | None = None) -> None:
        counts = self._counts.get(message_id, {})
        cleared = [*counts] if emoji is None else [emoji] if emoji in counts else []
        for each in cleared:
            del counts[each]
        if cleared:
            self._changed(message_id)

    def relabel(self, user_id: int, agent: str) -> None:
        for entry in self._entries.values():
            if entry.speaker.id == user_id and entry.speaker.agent != agent:
                self._put(replace(entry, speaker=replace(entry.speaker, kind="agent", agent=agent)))

    def relabel_post(self, message_id: int, agent: str) -> None:
        entry = self._entries.get(message_id)
        if entry is not None and entry.speaker.webhook:
            self._put(replace(entry, speaker=replace(entry.speaker, kind="agent", agent=agent)))

    def _put(self, entry: Entry) -> None:
        known, self._entries[entry.id] = self._entries[entry.id], entry
        self._listed = None
        if known != entry:
            self._changed(entry.id)

    def _changed(self, message_id: int) -> None:
        self._listed = None
        if self._report is not None:
            self._report(self.channel_id, message_id)

    def _forget(self, message_id: int) -> None:
        self._listed = None
        self._ids.remove(message_id)
        del self._entries[message_id]
        self._counts.pop(message_id, None)

    def _with_reactions(self, entry: Entry) -> Entry:
        counts = self._counts.get(entry.id)
        if not counts:
            return entry
        shown = tuple(
            Reaction(emoji, tuple(count.named.values()), count.count, count.by_person)
            for emoji, count in counts.items()
            if count.count > 0
        )
        return replace(entry, reactions=shown)


def revised(known: Entry, entry: Entry) -> Entry:
    """Return the known entry with everything an edit can change. An update without roles or rights keeps the known
    ones."""
    said = known if _is_empty(entry) else entry
    rights = (entry if entry.speaker.roles or entry.speaker.may_manage else known).speaker
    return replace(
        known,
        text=said.text,
        attachments=said.attachments,
        extras=said.extras,
        hidden=said.hidden,
        addressees=replace(known.addressees, mentions=said.addressees.mentions),
        edited=known.edited or said.text != known.text,
        pinned=entry.pinned,
        speaker=replace(known.speaker, roles=rights.roles, may_manage=rights.may_manage),
    )


def _is_empty(entry: Entry) -> bool:
    """Return whether a message may have lost its content: a bot without the message content intent gets only its
    stickers."""
    return not (entry.text or entry.attachments or any(not line.startswith("sticker:") for line in entry.extras))


class Transcripts:
    """The transcripts of all channels, each `depth` messages deep at first. Beyond `MAX_CHANNELS`, the least recently
    used ones are dropped."""

    def __init__(self, directory: Directory, depth: int = MAX_ENTRIES) -> None:
        self.directory, self.depth = directory, depth
        self._channels: OrderedDict[int, Transcript] = OrderedDict()
        self._on_change: list[Callable[[int, Collection[int]], None]] = []
        self._watchers: list[Watcher] = []
        directory.on_agent(lambda *learned: self.each(lambda transcript: transcript.relabel(*learned)))
        directory.on_post(lambda *learned: self.each(lambda transcript: transcript.relabel_post(*learned)))

    def of(self, channel_id: int) -> Transcript:
        try:
            self._channels.move_to_end(channel_id)
        except KeyError:
            self._channels[channel_id] = Transcript(channel_id, self.depth, self._report)
            if len(self._channels) > MAX_CHANNELS:
                self._channels.popitem(last=False)
        return self._channels[channel_id]

    def known(self, channel_id: int) -> Transcript | None:
        return self._channels.get(channel_id)

    def on_change(self, listener: Callable[[int, Collection[int]], None]) -> None:
        """Call `listener` for edited and deleted messages in all channels, with the channel's id and theirs."""
        self._on_change.append(listener)

    def changed(self, channel_id: int, message_ids: Collection[int]) -> None:
        for listener in self._on_change:
            listener(channel_id, message_ids)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with each message that was added, changed, or deleted, or whose reactions changed: once for
        each change, although every bot delivers it. It must be quick and must not raise. Returns a function that ends
        this."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _report(self, channel_id: int, message_id: int) -> None:
        for watcher in self._watchers:
            watcher(channel_id, message_id)

    def drop(self, channel_id: int) -> None:
        self._channels.pop(channel_id, None)

    def each(self, act: Callable[[Transcript], None]) -> None:
        for transcript in self._channels.values():
            act(transcript)
