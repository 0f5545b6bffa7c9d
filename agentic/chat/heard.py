"""A received message, and base classes for a service without servers, threads, and a readable past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentic.chat.attachments import DEFAULT_LIMITS, NOTHING_ATTACHED, Attached, AttachmentLimits
from agentic.chat.outlet import Outlet
from agentic.chat.service import ChannelInfo, IncomingMessage, Person, ReactionView
from agentic.chat.transcript import Transcript, Transcripts
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.state.leases import AnyLease, ConditionalLease
from agentic.state.silence import ChannelRef, Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardMessage:
    """A message that somebody wrote in a chat: its facts, and its entry in the transcript. `who`: the author of an
    order, if people have different rights."""

    facts: IncomingMessage
    entry: Entry
    who: Person | None = None


class HeardView:
    guild_id = None
    parent = None
    pins: tuple[tuple[Entry, ...], ...] = ()

    def __init__(self, channel_id: int, name: str, transcripts: Transcripts, *, is_group: bool) -> None:
        self.channel_id, self.name, self.is_private, self._transcripts = channel_id, name, not is_group, transcripts
        self.readers_id = channel_id if is_group else None  # all of its members read it, heard or not

    @property
    def transcript(self) -> Transcript:
        transcript = self._transcripts.of(self.channel_id)
        transcript.is_complete = True
        return transcript

    async def ensure_history(self) -> None:
        """Return at once."""

    async def fetch_history(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        """Return this chat's newest `messages` up to the last one of an interval, oldest first; None for another
        chat."""
        if interval.channel_id != self.channel_id:
            return None
        found = [entry for entry in self.transcript.entries() if entry.id <= interval.last]
        return found[-messages:] if messages > 0 else []

    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        return NOTHING_ATTACHED

    async def newest_with(self, emojis: Collection[str], count: int) -> Sequence[tuple[int, int, float, str]]:
        """Return each of these reactions to one of the newest `count` messages: message id, author, time (unix
        seconds), emoji."""
        known = self._transcripts.known(self.channel_id)
        newest = known.entries()[-count:] if known is not None and count > 0 else []
        signs = [(entry, given.emoji) for entry in newest for given in entry.reactions]
        return [(entry.id, entry.speaker.id, entry.created_at, sign) for entry, sign in signs if sign in emojis]

    async def givers(self, message_id: int, emoji: str) -> Sequence[Person]:
        """Return nobody: who reacted before this process listened isn't known."""
        del message_id, emoji
        return ()


class HeardChannels(ABC):
    """The chats of one agent's account. All of them are known immediately, and in scope."""

    arriving = False

    def __init__(self, silence: Silence, lease: AnyLease) -> None:
        self._silence, self.lease = silence, lease

    @abstractmethod
    def own_id(self, channel_id: int) -> int | None: ...
    @abstractmethod
    def known(self) -> Sequence[ChannelInfo]: ...
    @abstractmethod
    def view_of(self, channel_id: int) -> ReactionView | None: ...
    @abstractmethod
    def make_outlet(self, channel_id: int, lease: AnyLease) -> Outlet | None:
        """Return the outlet of a chat, which posts while the lease is held; None for an unknown chat."""

    def outlet_of(self, channel_id: int) -> Outlet | None:
        place = self.place(channel_id)
        return self.make_outlet(channel_id, ConditionalLease(lambda: not self._silence.check(place), self.lease))

    def answering(self, channel_id: int) -> Outlet | None:
        """Return the outlet for answers to commands, which are given even in a stopped chat."""
        return self.make_outlet(channel_id, self.lease)

    def place(self, channel_id: int) -> ChannelRef:
        return ChannelRef(channel_id)

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        return self.outlet_of(channel_id)

    async def wait_for(self, channel_id: int) -> None:  # noqa: B027
        """Return at once."""
