"""Pictures of personas from files: uploaded once to OWNER_CHANNEL_ID, since Discord takes only addresses for webhooks.

The address of an upload expires after a day or so. Before that, a new address is read from the upload's message. If the
message was deleted or the file changed, the file is uploaded again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_config import AgentSettings
from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost
from agentic.services.discord.messages import expires_at
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.services.discord.service import DiscordService, is_address
from agentic.state.leases import AnyLease
from agentic.state.posts import UploadedAvatar
from agentic.wire.connection import StateUnavailable

MAX_BYTES = 1_000_000
LOOK_SECONDS = 60.0
SOON = 1.0  # until a bot is online
RENEW_SECONDS = 3600.0  # before an address expires
NOTE = "The picture of {name}, for its posts. Please don't delete this message."

log = logging.getLogger(__name__)


class AvatarKeeper:
    """Keeps the addresses of all personas' pictures in DiscordService.avatars. `bots`: this process's connected bots;
    `lease` says whether it hosts the personas."""

    def __init__(self, services: Services, bots: Callable[[], Sequence[DiscordRoomBot]], *, lease: AnyLease) -> None:
        self._services, self._bots, self._lease = services, bots, lease
        self._stored = services.state.posts.avatars
        self._addresses = services.chats.get(DiscordService).avatars
        self._failed: set[str] = set()

    async def run(self) -> None:
        while True:
            can_upload = self._lease.is_held and bool(self._bots())
            if can_upload and self._services.settings.owner_channel_id is not None:
                await self.refresh()
            await asyncio.sleep(LOOK_SECONDS if can_upload else SOON)

    async def refresh(self) -> None:
        """Upload new pictures, and renew addresses that expire soon. A failed picture is tried again later."""
        for entry in self._services.agents.roster.personas:
            if entry.settings is None or entry.front.avatar is None or is_address(entry.front.avatar):
                continue
            try:
                self._addresses[entry.key] = await self._address_of(entry.settings, entry.front.avatar)
                self._failed.discard(entry.key)
            except (CannotPost, OSError, StateUnavailable) as error:
                level = logging.DEBUG if entry.key in self._failed else logging.WARNING
                log.log(level, "%s posts without its own picture: %s", entry.key, error)
                self._failed.add(entry.key)

    async def _address_of(self, persona: AgentSettings, name: str) -> str:
        """Return a current address. Raises CannotPost, OSError, and StateUnavailable."""
        file = self._services.settings.persona_folder(persona.name) / name
        data = await asyncio.to_thread(read_picture, file)
        digest, channel_id = hashlib.sha256(data).hexdigest()[:16], self._services.settings.owner_channel_id or 0
        known = await self._stored.read(persona.name)
        if known is not None and (known.digest != digest or known.channel_id != channel_id):
            known = None
        if known is not None and expires_at(known.url) > self._services.clock() + RENEW_SECONDS:
            return known.url
        bot = next((bot for bot in self._bots() if bot.may_write(channel_id)), None)
        if bot is None:
            raise CannotPost("unknown_channel")
        url = await bot.attachment_url(channel_id, known.message_id) if known is not None else None
        if known is not None and url is not None:
            kept = known.model_copy(update={"url": url})
        else:
            key, text = f"avatar {persona.name} {digest}", NOTE.format(name=persona.display_name)
            message_id, url = await bot.upload(channel_id, text, file.name, data, key)
            kept = UploadedAvatar(digest=digest, channel_id=channel_id, message_id=message_id, url=url)
        await self._stored.keep(persona.name, kept)
        return url


def read_picture(path: Path) -> bytes:
    """Read a persona's picture. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    return data
