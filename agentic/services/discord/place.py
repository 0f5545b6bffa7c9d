"""What one bot knows of the channels in its servers, for the actions that people take there."""

from __future__ import annotations

from collections.abc import Collection

import discord

from agentic.actions.base import Place
from agentic.personas.memory import MaySee
from agentic.rooms.opening import RoomOpener
from agentic.services.discord.channels import Audience, parent_of
from agentic.services.discord.gate import Gate
from agentic.services.discord.room_threads import RoomThreads
from agentic.services.discord.service import ApplicationOwners


class DiscordPlace(Place):
    def __init__(self, client: discord.Client, gate: Gate, threads: RoomThreads, opener: RoomOpener) -> None:
        self._client, self._threads, self._opener = client, threads, opener
        self._audience, self._application = Audience(client.get_channel), ApplicationOwners(client, gate)

    def guild_of(self, channel_id: int) -> int | None:
        return self._audience.guild_of(channel_id)

    def parent(self, channel_id: int) -> int | None:
        return parent_of(self._client.get_channel(channel_id))

    def may_see(self, here: int) -> MaySee:
        return self._audience.may_see(here)

    async def owners(self) -> Collection[int]:
        return await self._application.ids()

    def room_problem(self, channel_id: int, *, webhooks: bool) -> str | None:
        return self._threads.problem(channel_id, webhooks=webhooks)

    @property
    def opener(self) -> RoomOpener:
        return self._opener
