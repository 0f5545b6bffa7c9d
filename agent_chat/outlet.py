"""A channel on any service, as a turn knows it: what is heard there, and what can be posted there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import discord

from agent_chat.attachments import Look
from agent_chat.text_files import TextFile
from agent_chat.transcript import Transcript
from agent_context.entries import Entry
from agent_context.selecting.history import Interval
from agent_llm.types import Picture


class Grows(Protocol):
    """A post that is read while it is written."""

    def grow(self, text: str) -> None: ...


class CommandReplies(Protocol):
    """Answer a command that somebody wrote in the channel, and delete it; agent_discord.posting.command_replies."""

    def discard(self, message_id: int) -> bool: ...
    async def reply(self, message_id: int, text: str, occasion: str) -> bool: ...
    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool: ...


class Outlet(Protocol):
    """A place to listen, post, type and react. See agent_discord.outlet for what each promises."""

    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def own_ids(self) -> frozenset[int]: ...
    @property
    def transcript(self) -> Transcript: ...
    @property
    def may_attach(self) -> bool: ...
    @property
    def parent(self) -> Outlet | None: ...
    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]: ...
    @property
    def chores(self) -> CommandReplies | None: ...  # None where there are none
    def refusal(self) -> str | None: ...
    async def settle(self) -> None: ...
    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None: ...
    def know_as(self, inner_names: Mapping[str, str]) -> None: ...
    async def pictures(self, entries: Sequence[Entry], look: Look = ...) -> Mapping[int, tuple[Picture, ...]]: ...
    async def text_files(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = ...
    ) -> Mapping[int, TextFile]: ...
    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ...) -> Posted: ...
    def growing(
        self, turn_id: str, *, ping: int | None = ..., after: int | None = ..., split_at: int = ...
    ) -> AbstractAsyncContextManager[Grows]: ...
    async def withdraw(self, turn_id: str, after: int | None = ...) -> None: ...
    async def react(self, message_id: int, emoji: str) -> bool: ...
    async def acknowledge(self, message_id: int, emoji: str) -> bool: ...
    def typing(self) -> AbstractContextManager[None]: ...


SPLIT_AT = 1800  # UTF-16 units; what is longer becomes several messages


@dataclass(frozen=True, slots=True)
class Posted:
    """What was posted: the first message's id, the address of the picture, if one went along, and all messages' ids."""

    message_id: int
    picture_url: str | None = None
    message_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is to be posted. `ping` is the user id of the person who is answered.

    `after` is set where an earlier run of the program may have posted it, or some of it, behind that message.
    `split_at` is the length of a message, in UTF-16 units, at which another one begins; 2,000 at most.
    """

    text: str | None
    picture: Picture | None = None
    embed: discord.Embed | None = None
    ping: int | None = None
    after: int | None = None
    split_at: int = SPLIT_AT


def ignored(_: Posted) -> None:
    """For callers that wait for the end."""


class CannotPost(Exception):
    """It cannot be posted. `reason` is for the result: not_permitted, unknown_channel, discord_failed or not_ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


NOWHERE = 0  # the channel of an errand whose output nobody reads
