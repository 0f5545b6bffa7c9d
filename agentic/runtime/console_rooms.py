"""The console's rooms: who may sit in one, and its opening by a bot of this process, as `/room create` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import discord

from agentic.actions.console_rooms import NO_BOT, NewRoom, OpenedRoom, Seat
from agentic.actions.draft import RoomDraft
from agentic.agent.services import AgentServices
from agentic.ids import id_at
from agentic.runtime.bot import BotSupervisor

OWNER = 0  # a draft of nobody in Discord


class ConsoleRooms:
    """Implements agentic.console's RoomSide. `bots` gives those of this process."""

    def __init__(self, services: AgentServices, bots: Callable[[], Iterable[BotSupervisor]]) -> None:
        self._services, self._bots = services, bots

    def seats(self) -> Sequence[Seat]:
        return [
            Seat(member=entry.member, is_bot=entry.is_bot, model=entry.model, why_not=entry.why_not)
            for entry in self._services.roster
        ]

    def gone(self, agents: Sequence[str]) -> tuple[str, ...]:
        return self._services.roster.gone(agents)

    def can_open(self) -> bool:
        return any(bot.online for bot in self._bots())

    async def open(self, wanted: NewRoom) -> OpenedRoom:
        bot = next((bot for bot in self._bots() if bot.online), None)
        if bot is None:
            return OpenedRoom(f"No room was opened: {NO_BOT}.")
        channel = bot.client.get_channel(wanted.channel_id)
        guild = channel.guild if isinstance(channel, discord.TextChannel) else None
        draft = RoomDraft.model_validate(
            {
                "asked_by": OWNER,
                "channel_id": wanted.channel_id,
                "guild_id": guild.id if guild is not None else None,
                "topic": wanted.topic,
                "turns": wanted.turns,
                "archive_minutes": wanted.archive_minutes,
                "policy": wanted.policy,
                "audience_seconds": wanted.audience_seconds,
                "goodbye_ends": wanted.goodbye_ends,
                "theme": wanted.theme,
                "rules": wanted.rules,
            }
        )
        text, thread_id = await bot.room_creation.for_owner(self._new_id(), draft, wanted.personas)
        where = f"#{channel.name}" if isinstance(channel, discord.TextChannel) else "the channel"
        named = text.replace(f"<#{wanted.channel_id}>", where).replace(f"<#{thread_id}>", f"“{wanted.topic}”")
        return OpenedRoom(named, thread_id)

    def _new_id(self) -> int:
        """An id of the present, as an interaction's would be."""
        return id_at(self._services.clock())


class AgentColours(Mapping[str, int]):
    """0xRRGGBB of each agent of the roster, which changes."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services

    def __getitem__(self, agent: str) -> int:
        entry = self._services.roster.of(agent)
        if entry is None or entry.settings is None:
            raise KeyError(agent)
        return entry.settings.spec.colour

    def __iter__(self) -> Iterator[str]:
        return (entry.key for entry in self._services.roster if entry.settings is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
