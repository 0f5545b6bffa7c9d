"""The outlet that a turn speaks through: a channel of any service, as a view to read it by and a sink to write into.

Plain values go in and out. What each member promises is written at its implementation:
agentic.services.discord.channel_view and agentic.services.discord.channel_sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from agentic.chat.attachments import Attached, AttachmentLimits
from agentic.chat.service import Service
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.llm.types import Picture, Source, Usage

NO_CHANNEL = 0  # the channel id of an automation task whose output nobody reads
SPLIT_AT = 1800  # UTF-16 units; a longer text becomes several messages
UNFINISHED = " ▌"  # the end of a streaming post, until it is complete


class CannotPost(Exception):
    """Nothing was posted. `reason` is for the result: not_permitted, gone, unknown_channel, discord_failed,
    signal_failed or not_ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def is_final(self) -> bool:
        """Whether another try would fail too."""
        return self.reason in ("not_permitted", "gone")


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The line about money below a post: a turn's usage and the agent's total of the day. `colour` is the agent's."""

    usage: Usage
    day_total_usd: float
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A text, a picture, or both. `ping` is the user id of the person who is answered, `asked` their message.

    `after` is set where an earlier run of the program may have posted it, or some of it, behind that message.
    `reply_to` is the message that it answers as a reply; `sources` are shown below the text.
    `split_at` is the length of a message, in UTF-16 units, at which the next one begins; 2,000 at most.
    """

    text: str | None
    picture: Picture | None = None
    cost: TurnCost | None = None
    ping: int | None = None
    after: int | None = None
    split_at: int = SPLIT_AT
    reply_to: int | None = None
    asked: int | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Posted:
    """The ids of a post's messages, the first one apart, and the address of its picture, if it has one."""

    message_id: int
    picture_url: str | None = None
    message_ids: tuple[int, ...] = ()


def ignored(_: Posted) -> None:
    """For callers that wait for the end."""


def unfinished(text: str) -> bool:
    """Whether a message of ours is not complete, or never will be."""
    return text.rstrip().endswith(UNFINISHED.strip())


def without_mark(text: str) -> str:
    """A complete text, which must not end as an unfinished one does."""
    return text.rstrip(f"{UNFINISHED}\n") if unfinished(text) else text


class StreamingPost(Protocol):
    """A post that is read while it is written."""

    def update(self, text: str) -> None: ...


class CommandReplies(Protocol):
    """Delete a command that a person wrote in the channel, and answer it."""

    def discard(self, message_id: int) -> bool: ...
    async def reply(self, message_id: int, text: str, occasion: str, *, in_parent: bool = ...) -> bool: ...
    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool: ...


class ChannelView(Protocol):
    """A channel or thread as one agent reads it."""

    @property
    def service(self) -> Service: ...
    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def is_private(self) -> bool: ...  # a chat of one person with the agent
    @property
    def name(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def own_ids(self) -> frozenset[int]: ...
    @property
    def transcript(self) -> Transcript: ...
    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]: ...
    @property
    def parent(self) -> ChannelView | None: ...
    async def settle(self) -> None: ...
    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None: ...
    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = ...) -> Attached: ...


class ChannelSink(Protocol):
    """A channel or thread as one agent writes into it."""

    @property
    def may_attach(self) -> bool: ...
    @property
    def may_react(self) -> bool: ...
    @property
    def command_replies(self) -> CommandReplies | None: ...
    def refusal(self) -> str | None: ...
    def ignore_lock(self) -> None: ...
    def know_as(self, inner_names: Mapping[str, str]) -> None: ...
    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ...) -> Posted: ...
    def streaming(
        self, turn_id: str, *, ping: int | None = ..., after: int | None = ..., split_at: int = ...
    ) -> AbstractAsyncContextManager[StreamingPost]: ...
    async def withdraw(self, turn_id: str, after: int | None = ...) -> None: ...
    async def react(self, message_id: int, emoji: str) -> bool: ...
    async def acknowledge(self, message_id: int, emoji: str) -> bool: ...
    def typing(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Outlet:
    """A channel as one agent reads it and writes into it."""

    view: ChannelView
    sink: ChannelSink
