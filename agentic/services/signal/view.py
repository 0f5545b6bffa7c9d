"""The view of one chat of Signal: its names and its transcript. There is no history to read beyond it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentic.chat.attachments import DEFAULT_LIMITS, Attached, AttachmentLimits
from agentic.chat.outlet import SIGNAL
from agentic.chat.service import Person
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.chats import Chat


class SignalView:
    """A chat as one account reads it."""

    service = SIGNAL
    guild_id = None
    parent = None

    def __init__(self, account: SignalAccount, chat: Chat) -> None:
        self.account, self.chat = account, chat

    @property
    def channel_id(self) -> int:
        return self.chat.channel_id

    @property
    def readers_id(self) -> int | None:
        """The group: its members read the chat, also those whom nobody hears."""
        return self.channel_id if self.chat.is_group else None

    @property
    def is_private(self) -> bool:
        return not self.chat.is_group

    @property
    def name(self) -> str:
        return self.chat.name

    @property
    def own_name(self) -> str:
        """The agent's name: `@name` in a text mentions it."""
        return self.account.me.name

    @property
    def own_ids(self) -> frozenset[int]:
        return frozenset((self.account.me.person,))

    @property
    def transcript(self) -> Transcript:
        return self.account.transcript(self.chat)

    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]:
        """Nothing: signal-cli-rest-api does not read pinned messages."""
        return ()

    async def settle(self) -> None:
        """Returns at once: what was heard is all that there is."""

    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        """The newest `messages` of this chat up to the last one of an interval, oldest first. None for another chat."""
        if interval.channel_id != self.channel_id:
            return None
        upto = [entry for entry in self.transcript.entries() if entry.id <= interval.last]
        return upto[-messages:] if messages > 0 else []

    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        """Read the newest pictures and text files of these entries."""
        return await self.account.attachments.read(entries, limits)

    # -- reactions that were missed -----------------------------------------------------------------------------------

    async def newest_with(self, emojis: Collection[str], count: int) -> Sequence[tuple[int, int, float, str]]:
        """Each of these reactions to one of the newest `count` messages, of which nobody knows but this process: the
        message's id, author and time (unix seconds), and the emoji."""
        known = self.account.transcripts.known(self.chat.channel_id)
        newest = known.entries()[-count:] if known is not None and count > 0 else []
        signs = [(entry, given.emoji) for entry in newest for given in entry.reactions]
        return [(entry.id, entry.speaker.id, entry.created_at, sign) for entry, sign in signs if sign in emojis]

    async def givers(self, message_id: int, emoji: str) -> Sequence[Person]:
        """Nobody: the server does not list reactions."""
        del message_id, emoji
        return ()
