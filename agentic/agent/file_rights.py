"""Rights to change what all guilds share: an agent's files and its workspace, mutes, ignored people, the pause.

Managers of a guild may change them if the installation has that guild alone. Otherwise their text would speak, and
spend, in other guilds, so only the owner may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from agent_config import Settings
from agentic.chat.incoming import Person

SHARED_FILES = "These files are shared by all servers of the bots, so only the bots' owner may change them."
MANAGERS_ONLY = "You need the Manage Server permission for that."

GuildOf = Callable[[int], int | None]  # channel id → guild id; None: not known


def only_guild(settings: Settings, guild_of: GuildOf) -> int | None:
    """The only guild of the bots; None if there are several, or an unknown channel may be in another one."""
    one = len(settings.guild_ids) == 1
    channels = set() if one else set(settings.channels)
    if settings.output_channel_id is not None:
        channels.add(settings.output_channel_id)
    guilds = {*(settings.guild_ids if one else ()), *map(guild_of, channels)}
    return guilds.pop() if len(guilds) == 1 else None


async def no_owners() -> Collection[int]:
    return ()


class FileRights:
    """Decide about changes to shared files. `owners` returns the user ids of the application's owners."""

    def __init__(
        self, settings: Settings, guild_of: GuildOf, owners: Callable[[], Awaitable[Collection[int]]] = no_owners
    ) -> None:
        self._settings, self.guild_of, self._owners = settings, guild_of, owners

    async def is_owner(self, who: Person) -> bool:
        """Whether a person is named in OWNER_USER_IDS, or owns the application."""
        return who.user_id in self._settings.owner_user_ids or who.user_id in await self._owners()

    async def refusal(self, who: Person, guild_id: int | None, why: str = SHARED_FILES) -> str | None:
        """The reason why a person of this guild may not do what acts in all guilds; None if they may."""
        if who.user_id in self._settings.owner_user_ids:
            return None
        if who.manages_guild and guild_id is not None and guild_id == only_guild(self._settings, self.guild_of):
            return None
        if who.user_id in await self._owners():
            return None
        return _owners_only(why, who.user_id, guild_id) if who.manages_guild else MANAGERS_ONLY


def _owners_only(why: str, user_id: int, guild_id: int | None) -> str:
    return (
        f"{why} If that is you,"
        f" set OWNER_USER_IDS={user_id} in .env and restart the bots; if they are in this server only,"
        f" GUILD_IDS={guild_id} works too."
    )
