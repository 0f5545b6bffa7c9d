"""The channels of the Live page as plain values, and the protocols that what lies above implements.

Texts have names in place of mentions, and are untrusted: the page shows them as text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # that a page shows
OnChange = Callable[[int, int], None]
"""Called with a channel's id and a message's: it was posted, edited, deleted, or its reactions changed."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel or thread in which the bots speak. `newest` is the id of its newest message, 0 for none."""

    id: int
    name: str
    theme: str
    guild: str = ""  # the server's name
    parent_id: int | None = None  # a thread's channel
    newest: int = 0

    def with_newest(self, message_id: int) -> Channel:
        return replace(self, newest=message_id)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "name": self.name,
            "theme": self.theme,
            "guild": self.guild,
            "parent": None if self.parent_id is None else str(self.parent_id),
            "newest": str(self.newest),
        }


@dataclass(frozen=True, slots=True)
class File:
    """An attached file; `size` in bytes. The page shows a picture, and names any other file."""

    id: int
    name: str
    size: int
    picture: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """`by` has the names that are known; `count` is Discord's number."""

    emoji: str
    count: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """`agent` is the key of one of our agents, None for anybody else. `at` in unix seconds. `growing`: the bot is still
    writing it. `kind`: agent, person, stranger (a foreign bot or webhook)."""

    id: int
    channel_id: int
    author_id: int
    author: str
    kind: str
    agent: str | None
    at: float
    text: str
    reply_to: int | None = None
    edited: bool = False
    growing: bool = False
    files: tuple[File, ...] = ()
    reactions: tuple[Reaction, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "channel": str(self.channel_id),
            "author": {"id": str(self.author_id), "name": self.author, "kind": self.kind, "agent": self.agent},
            "at": self.at,
            "text": self.text,
            "reply_to": None if self.reply_to is None else str(self.reply_to),
            "edited": self.edited,
            "growing": self.growing,
            "files": [
                {"id": str(file.id), "name": file.name, "size": file.size, "picture": file.picture}
                for file in self.files
            ],
            "reactions": [{"emoji": one.emoji, "count": one.count, "by": list(one.by)} for one in self.reactions],
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """`media_type` is one of PICTURE_TYPES, as the bytes themselves say."""

    data: bytes
    media_type: str


class LiveChannels(Protocol):
    """The channels as the bots of this process see them. Direct messages are not among them."""

    def names(self) -> Mapping[int, str]:
        """Channel id → name, of the channels that are known by now, and of chats of other services."""
        ...

    def people(self) -> Mapping[int, str]:
        """Person's id → name, of those whose messages these channels still have."""
        ...

    def channels(self) -> Sequence[Channel]:
        """The channels that a bot of this process sees, in the order of the settings, threads after their channel."""
        ...

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Message] | None:
        """The newest messages, or the newest before a message: at most `count`, oldest first. None for a channel that
        is not shown."""
        ...

    def message(self, channel_id: int, message_id: int) -> Message | None:
        """None for one that is gone, or not kept any more."""
        ...

    def is_shown(self, channel_id: int) -> bool:
        """Whether the channel is one of `channels()`, or would be with its first message."""
        ...

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        """`on_change` is called once for each change, from the loop. Returns a function that ends this."""
        ...

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        """None where there is none, it is gone, or it is not a picture of a sensible size."""
        ...


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a person attaches to a message."""

    name: str
    data: bytes


class NotSaid(Exception):
    """A person's message or reaction was refused; the text says why in one line."""


class People(Protocol):
    """Local mode only: the person who writes and reacts from the console. Methods raise NotSaid."""

    @property
    def name(self) -> str: ...

    def mentions(self) -> Sequence[str]:
        """The names that may follow an `@`."""
        ...

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        """Post a message and return its id. The text may be empty where there is a file."""
        ...

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        """Give a reaction, or take it back."""
        ...
