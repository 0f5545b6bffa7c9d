"""The interface of a bot for rooms and arenas; agentic.services.discord.room_threads implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ThreadNow:
    archived: bool = False
    locked: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class RoomPost:
    """A post of an agent in a thread. `voters` are the people who gave it a VOTE of any color."""

    message_id: int
    agent: str
    text: str
    voters: frozenset[int] = frozenset()


Stands = Mapping[int, str]
"""Person → the answer to a poll, in small letters."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Discord's own poll, which is open for `hours`."""

    question: str
    answers: tuple[str, ...]
    hours: int


@dataclass(frozen=True, slots=True)
class ThreadWords:
    """The agents' posts in a thread, oldest first, and the ids of the people who wrote there. `stands`: what people
    answered to the polls before and after, if both can be read."""

    posts: tuple[RoomPost, ...] = ()
    people: frozenset[int] = frozenset()
    stands: tuple[Stands, Stands] | None = None


class RoomBot(Protocol):
    """A bot. Every request raises CannotPost, except `read_thread`."""

    @property
    def agent(self) -> str: ...

    # To open a room

    def room_problem(self, channel_id: int, *, webhooks: bool) -> str | None: ...
    async def post_opening(self, channel_id: int, text: str, request: int, *, again: bool) -> int: ...
    async def start_thread(self, channel_id: int, message_id: int, name: str, minutes: int) -> None: ...
    async def edit_opening(self, channel_id: int, message_id: int, text: str) -> None: ...
    async def has_message(self, channel_id: int, message_id: int) -> bool: ...

    # To look after its thread

    def sees(self, channel_id: int) -> bool: ...
    def may_lock(self, channel_id: int) -> bool: ...
    def may_write_in_threads(self, channel_id: int) -> bool | None: ...
    async def read_thread(self, channel_id: int, thread_id: int) -> ThreadNow | None: ...
    async def find_deleted(self, channel_id: int, thread_id: int, message_ids: Sequence[int]) -> Sequence[int]: ...
    async def say(
        self, channel_id: int, thread_id: int | None, text: str, key: str, *, since: float | None = None
    ) -> None: ...
    async def is_gone(self, channel_id: int, thread_id: int) -> bool: ...
    async def lock(self, channel_id: int, thread_id: int, *, locked: bool) -> None: ...
    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None: ...
    async def words(self, channel_id: int, thread_id: int) -> ThreadWords: ...

    # To ask people

    def may_ask(self, channel_id: int) -> bool: ...
    async def ask(
        self, channel_id: int, thread_id: int, text: str, poll: Poll, key: str, *, since: float | None
    ) -> int: ...
    async def end_poll(self, channel_id: int, thread_id: int, message_id: int) -> None: ...
    async def stands(self, channel_id: int, thread_id: int, message_id: int) -> Stands: ...

    # To hold an arena

    def may_write(self, channel_id: int) -> bool: ...
    async def post(self, channel_id: int, text: str, key: str, *, since: float) -> int: ...
    async def offer(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> None: ...
    async def voters(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> Sequence[frozenset[int]]: ...
