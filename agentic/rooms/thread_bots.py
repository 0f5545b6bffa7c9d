"""The bots of this process as those that look after the threads of rooms: which one does it, and who may."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agentic.chat.outlet import CannotPost
from agentic.services.discord.room_upkeep import RoomPost
from agentic.state.rooms import Room

log = logging.getLogger(__name__)


class ThreadBot(Protocol):
    """A bot; agentic.services.discord.room_upkeep. Its requests raise CannotPost."""

    @property
    def agent(self) -> str: ...
    def sees(self, channel_id: int) -> bool: ...
    def may_lock(self, channel_id: int) -> bool: ...
    async def say(
        self, channel_id: int, thread_id: int | None, text: str, key: str, *, since: float | None = None
    ) -> None: ...
    async def is_gone(self, channel_id: int, thread_id: int) -> bool: ...
    async def lock(self, channel_id: int, thread_id: int, *, locked: bool) -> None: ...
    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None: ...
    async def posts(self, channel_id: int, thread_id: int) -> Sequence[RoomPost]: ...


class ThreadBots:
    """`online` gives the bots that are online; `has_bot` says whether an agent has an account of its own, here or in
    another process. What fails in a way that may pass raises CannotPost."""

    def __init__(self, online: Callable[[], Sequence[ThreadBot]], has_bot: Callable[[str], bool]) -> None:
        self._online, self._has_bot = online, has_bot

    def any(self) -> bool:
        return bool(self._online())

    def near(self, room: Room) -> list[ThreadBot]:
        """The bots that see the room's channel, always in the same order: a repeated notice has the same author.
        Raises CannotPost where there is none yet."""
        near = sorted((bot for bot in self._online() if bot.sees(room.channel_id)), key=lambda bot: bot.agent)
        if not near:
            raise CannotPost("unknown_channel")
        return near

    def may_lock(self, room: Room) -> bool:
        """Whether all bots that write in the thread could do so in a locked one; a webhook always can."""
        near = self.near(room)
        here = {bot.agent for bot in near}
        elsewhere = any(self._has_bot(name) and name not in here for name in room.names)
        return not elsewhere and all(bot.may_lock(room.channel_id) for bot in near)

    async def say(self, room: Room, text: str, key: str, *, outside: bool = False, since: float | None = None) -> bool:
        """Post in the thread, or `outside` in the channel above it; `since` as in RoomUpkeep.say. False where no bot
        ever may."""
        thread_id, key = None if outside else room.thread_id, f"room {room.thread_id} {key}"
        return await self._by_any(
            self.near(room)[:1], lambda bot: bot.say(room.channel_id, thread_id, text, key, since=since)
        )

    async def is_gone(self, room: Room) -> bool:
        """Whether the thread was deleted; False if the bots can't see that either."""
        answers: list[bool] = []

        async def look(bot: ThreadBot) -> None:
            answers.append(await bot.is_gone(room.channel_id, room.thread_id))

        await self._by_any(self.near(room), look)
        return any(answers)

    async def posts(self, room: Room) -> Sequence[RoomPost]:
        """The agents' posts in the thread, oldest first; none where they cannot be read any more."""
        found: list[RoomPost] = []

        async def read(bot: ThreadBot) -> None:
            found.extend(await bot.posts(room.channel_id, room.thread_id))

        await self._by_any(self.near(room)[:1], read)
        return found

    async def lock(self, room: Room, *, locked: bool) -> bool:
        """False where no bot may."""
        managers = [bot for bot in self.near(room) if bot.may_lock(room.channel_id)]
        return await self._by_any(managers, lambda bot: bot.lock(room.channel_id, room.thread_id, locked=locked))

    async def archive(self, room: Room, *, archived: bool) -> bool:
        """False where no bot may. Without Manage Threads a bot may archive only the thread that it started, so each one
        may have to try."""
        bots = sorted(self.near(room), key=lambda bot: not bot.may_lock(room.channel_id))
        return await self._by_any(bots, lambda bot: bot.archive(room.channel_id, room.thread_id, archived=archived))

    async def _by_any(self, bots: Sequence[ThreadBot], request: Callable[[ThreadBot], Awaitable[None]]) -> bool:
        """Have the first of them do it that may."""
        for bot in bots:
            try:
                await request(bot)
            except CannotPost as error:
                if not error.is_final:
                    raise
            else:
                return True
        return False
