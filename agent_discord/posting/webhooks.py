"""Posts under a name of their own, by a webhook: tool calls, personas without a bot.

Each channel has one webhook of ours; threads use their channel's. It is looked for before it is made, by its creator
and never by its name, so a restarted process finds it. A webhook that somebody deleted is recreated, once for each
post. Our posts are known by their ids (agent_protocol.state.posts). A webhook's token is as good as its address:
neither is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from weakref import WeakValueDictionary

import aiohttp
import discord

from agent_chat.directory import Directory, WebhookPostStore
from agent_discord.objects.channels import Channel
from agent_discord.posting.splitting import LIMIT, length
from agent_discord.rest.errors import REQUEST_ERRORS, kind
from agent_discord.rest.gate import Gate, WebhookChannel
from agent_discord.rest.rate_limit import RefusedRequests, count_webhooks

NAME = "agents"  # Discord takes no name with "discord" in it
MAX_NAME = 80  # characters
TIMEOUT = 10.0  # seconds for a post or an edit with all that it needs
MAX_WEBHOOKS = 1000  # remembered

_UNKNOWN_WEBHOOK, _INVALID_TOKEN = 10015, 50027  # discord.com/developers/docs/topics/opcodes-and-status-codes
_MORE = "\n… (cut here: too long for Discord)"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """The name and avatar (an address) that a post shows. `agent` is the key of the agent whose post it is."""

    agent: str
    name: str
    avatar: str | None = None


class Webhooks:
    """Shared by all bots of a process: each uses the webhooks that another made. `session` is not owned."""

    def __init__(
        self, session: aiohttp.ClientSession, directory: Directory, posts: WebhookPostStore, refused: RefusedRequests
    ) -> None:
        self._session, self._directory, self._posts = session, directory, posts
        self._known: dict[int, discord.Webhook] = {}  # by channel
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._warned: set[int] = set()
        count_webhooks(session, refused)

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        """Posts, pings nobody, and returns the post's id; None where it failed, which is logged."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._send(gate, channel, text, face)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("webhook post to channel %d failed (%d characters): %s", channel.id, len(text), kind(error))
            return None

    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool:
        """Edits a post; False where it failed, for instance since the message or its webhook was deleted."""
        place = _place(channel)
        if place is None:
            return False
        try:
            async with asyncio.timeout(TIMEOUT):
                webhook = await self._webhook(gate, channel, place)
                if webhook is None:
                    return False
                await gate.edit_by_webhook(webhook, message_id, fitting(gate.clean(text)), thread=_thread(channel))
        except (*REQUEST_ERRORS, TimeoutError) as error:
            if _is_gone(error):
                self._known.pop(place.id, None)
            log.info("webhook post %d could not be edited: %s", message_id, kind(error))
            return False
        return True

    async def _send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        place = _place(channel)
        webhook = await self._webhook(gate, channel, place) if place is not None else None
        if webhook is None or place is None:
            return None
        try:
            message_id = await self._post(gate, webhook, channel, text, face)
        except discord.HTTPException as error:
            if not _is_gone(error):
                raise
            log.info("channel %d: its webhook was deleted, recreating it", place.id)
            self._known.pop(place.id, None)
            webhook = await self._webhook(gate, channel, place)
            if webhook is None:
                return None
            message_id = await self._post(gate, webhook, channel, text, face)
        self._directory.learn_post(message_id, face.agent)
        await self._posts.add(channel.id, message_id, face.agent)
        return message_id

    async def _post(
        self, gate: Gate, webhook: discord.Webhook, channel: Channel, text: str, face: WebhookIdentity
    ) -> int:
        message = await gate.send_by_webhook(
            webhook,
            fitting(gate.clean(text)),
            name=allowed_name(face.name),
            avatar=face.avatar,
            thread=_thread(channel),
        )
        return message.id

    async def _webhook(self, gate: Gate, channel: Channel, place: WebhookChannel) -> discord.Webhook | None:
        async with self._locks.setdefault(place.id, asyncio.Lock()):
            known = self._known.get(place.id)
            if known is not None:
                return known
            if not place.permissions_for(place.guild.me).manage_webhooks:
                self._warn(place.id)
                return None
            found = await self._find(gate, place) or await gate.make_webhook(place, NAME)
            assert found.token is not None, "a bot's own webhook comes with its token"
            webhook = discord.Webhook.partial(found.id, found.token, session=self._session)
            self._known[place.id] = webhook
            if len(self._known) > MAX_WEBHOOKS:
                del self._known[next(iter(self._known))]
            return webhook

    async def _find(self, gate: Gate, place: WebhookChannel) -> discord.Webhook | None:
        """The oldest webhook that one of our bots made. Another application's comes without its token."""
        ours = (
            webhook
            for webhook in await gate.webhooks(place)
            if webhook.token and webhook.user is not None and self._directory.agent_of(webhook.user.id) is not None
        )
        return min(ours, key=lambda webhook: webhook.id, default=None)

    def _warn(self, channel_id: int) -> None:
        if channel_id not in self._warned:
            self._warned.add(channel_id)
            log.warning("channel %d: nothing is posted by webhook, the bot lacks Manage Webhooks there", channel_id)


def allowed_name(name: str) -> str:
    """The name as Discord accepts it for a webhook's post: 1 to 80 characters, without Discord's own names in it."""
    for word in ("discord", "clyde"):
        at = name.lower().find(word)
        while at >= 0:
            name = f"{name[: at + 1]}.{name[at + 1 :]}"
            at = name.lower().find(word)
    return name.strip()[:MAX_NAME].strip() or NAME


def fitting(text: str) -> str:
    """The text as one message; a longer one is cut, with a note."""
    if length(text) <= LIMIT:
        return text
    room = LIMIT - length(_MORE)
    cut = text[:room]
    while length(cut) > room:
        cut = cut[: len(cut) - (length(cut) - room + 1) // 2]
    return cut + _MORE


def _place(channel: Channel) -> WebhookChannel | None:
    """The channel that has the webhook: a thread has none of its own, a direct message none at all."""
    if isinstance(channel, discord.DMChannel):
        return None
    return channel.parent if isinstance(channel, discord.Thread) else channel


def _thread(channel: Channel) -> discord.Object | None:
    return discord.Object(channel.id) if isinstance(channel, discord.Thread) else None


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in (_UNKNOWN_WEBHOOK, _INVALID_TOKEN)
