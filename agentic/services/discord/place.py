"""What one bot knows about its servers' channels, for the actions that people take there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import discord

from agentic.actions.base import Place
from agentic.agent.roster import without_mentions
from agentic.chat.directory import Directory, clean_name
from agentic.personas.memory import MaySee
from agentic.rooms.opening import RoomOpener
from agentic.services.discord.channels import Audience, GuildChannel, parent_of
from agentic.services.discord.gate import REQUEST_ERRORS, Gate, error_code
from agentic.services.discord.mentions import mentioned_in, to_names
from agentic.services.discord.room_threads import DiscordRoomBot

KEPT_SECONDS = 600.0
MAX_NAMED = 10  # people in a text

log = logging.getLogger(__name__)


class DiscordPlace(Place):
    """Answers questions about channels for one bot. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        client: discord.Client,
        gate: Gate,
        room_bot: DiscordRoomBot,
        opener: RoomOpener,
        directory: Directory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._gate, self._room_bot, self._opener = client, gate, room_bot, opener
        self._audience, self._clock = Audience(client.get_channel), clock
        self._directory, self._owners, self._owners_until = directory, frozenset[int](), clock()

    def guild_of(self, channel_id: int) -> int | None:
        return self._audience.guild_of(channel_id)

    def parent(self, channel_id: int) -> int | None:
        return parent_of(self._client.get_channel(channel_id))

    def may_see(self, here: int) -> MaySee:
        return self._audience.may_see(here)

    async def with_names(self, text: str, here: int) -> str:
        place, may_see, names = self._client.get_channel(here), self.may_see(here), dict[int, str]()
        if not isinstance(place, GuildChannel) or "<" not in text:
            return text
        guild = place.guild
        for user_id in sorted(mentioned_in(text))[:MAX_NAMED]:
            try:
                member = await self._gate.member(guild, user_id)
            except REQUEST_ERRORS as error:
                log.info("reading a mentioned person's name failed: %s; the text says someone", error_code(error))
                break
            if member is not None:
                names[user_id] = clean_name(member.display_name)
        channels = {each.id: each.name for each in (*guild.channels, *guild.threads) if may_see(each.id)}
        roles = {role.id: role.name for role in guild.roles}
        return to_names(without_mentions(text, names.get), channels=channels, roles=roles)

    async def owners(self) -> Collection[int]:
        """Return the user ids of the application's owners, cached for ten minutes. If Discord can't be reached, return
        the last known owners."""
        if self._clock() >= self._owners_until:
            http: Any = self._client.http
            try:
                self._owners = owners_in(await self._gate.request(http.application_info))
            except REQUEST_ERRORS as error:
                log.warning("reading the application's owners failed: %s; using the last known ones", error_code(error))
            else:
                self._owners_until = self._clock() + KEPT_SECONDS
                self._directory.learn_owners(self._room_bot.agent, self._owners)
        return self._owners

    def thread_problem(self, thread_id: int) -> str | None:
        return self._room_bot.thread_problem(thread_id)

    @property
    def opener(self) -> RoomOpener:
        return self._opener


def owners_in(application: Mapping[str, Any]) -> frozenset[int]:
    """Return the user ids in Discord's application object: its owner, or its team's members who may change it
    (discord.com/developers/docs/topics/teams#team-member-roles). A team application's own owner isn't a person."""
    if not (team := application.get("team")):
        owner = application.get("owner")
        return frozenset({int(owner["id"])}) if owner else frozenset()
    members = (one for one in team.get("members", ()) if one.get("membership_state") == 2)  # accepted
    return frozenset(int(one["user"]["id"]) for one in members if one.get("role") != "read_only")
