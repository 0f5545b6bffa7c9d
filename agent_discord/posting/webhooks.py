"""Posts under a name of their own, by a webhook: what tools are asked and answer, personas that have no bot.

Each channel has one webhook of ours; threads use their channel's. It is looked for before it is made, by who made it
and never by its name, so a restarted process finds it; one that somebody deleted is made anew, once for each post.
Which posts are ours is known by their ids (own_posts.py). A webhook's token is as good as its address: neither is ever
logged.
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
REMEMBERED = 1000  # channels

_UNKNOWN_WEBHOOK, _INVALID_TOKEN = 10015, 50027  # discord.com/developers/docs/topics/opcodes-and-status-codes
_MORE = "\n… (cut here: too long for Discord)"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """Whom a post shows. `agent` is the key of the agent whose post it is, `avatar` an address."""

    agent: str
    name: str
    avatar: str | None = None


class Webhooks:
    """Shared by all bots of a process: what one of them made, the others use. `session` is not owned."""

    def __init__(
        self, session: aiohttp.ClientSession, directory: Directory, posts: WebhookPostStore, refused: RefusedRequests
    ) -> None:
        self._session, self._directory, self._posts = session, directory, posts
        self._known: dict[int, discord.Webhook] = {}  # by channel
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._told: set[int] = set()
        count_webhooks(session, refused)

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        """The post's id; None where it could not be made, which the log says. Never pings anybody."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._send(gate, channel, text, face)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            told = "a webhook's post to channel %d failed (%d characters): %s"
            log.warning(told, channel.id, len(text), kind(error))
            return None

    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool:
        """False where it could not be done: the message is gone, or its webhook."""
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
            log.info("a webhook's post %d could not be edited: %s", message_id, kind(error))
            return False
        return True

    async def _send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        place = _place(channel)
        webhook = await self._webhook(gate, channel, place) if place is not None else None
        if webhook is None or place is None:
            return None
        try:
            message_id = await self._say(gate, webhook, channel, text, face)
        except discord.HTTPException as error:
            if not _is_gone(error):
                raise
            log.info("the webhook of channel %d was deleted: another one is made", place.id)
            self._known.pop(place.id, None)
            webhook = await self._webhook(gate, channel, place)
            if webhook is None:
                return None
            message_id = await self._say(gate, webhook, channel, text, face)
        self._directory.learn_post(message_id, face.agent)
        await self._posts.add(channel.id, message_id, face.agent)
        return message_id

    async def _say(
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
                self._tell(place.id)
                return None
            found = await self._find(gate, place) or await gate.make_webhook(place, NAME)
            assert found.token is not None, "one's own webhook comes with its token"
            webhook = discord.Webhook.partial(found.id, found.token, session=self._session)
            self._known[place.id] = webhook
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
            return webhook

    async def _find(self, gate: Gate, place: WebhookChannel) -> discord.Webhook | None:
        """The oldest that one of our bots made. Another application's comes without its token."""
        ours = (
            webhook
            for webhook in await gate.webhooks(place)
            if webhook.token and webhook.user is not None and self._directory.agent_of(webhook.user.id) is not None
        )
        return min(ours, key=lambda webhook: webhook.id, default=None)

    def _tell(self, channel_id: int) -> None:
        if channel_id not in self._told:
            self._told.add(channel_id)
            log.warning("channel %d: nothing is shown by webhook, the bot lacks Manage Webhooks there", channel_id)


def allowed_name(name: str) -> str:
    """A name that Discord takes for a webhook's post: 1 to 80 characters, without its own names in it."""
    for word in ("discord", "clyde"):
        at = name.lower().find(word)
        while at >= 0:
            name = f"{name[: at + 1]}.{name[at + 1 :]}"
            at = name.lower().find(word)
    return name.strip()[:MAX_NAME].strip() or NAME


def fitting(text: str) -> str:
    """The text as one message; what does not fit is cut off, and that is said."""
    if length(text) <= LIMIT:
        return text
    room = LIMIT - length(_MORE)
    cut = text[:room]
    while length(cut) > room:
        cut = cut[: len(cut) - (length(cut) - room + 1) // 2]
    return cut + _MORE


def _place(channel: Channel) -> WebhookChannel | None:
    """Where a channel's webhook lives; a thread has none of its own, a direct message none at all."""
    if isinstance(channel, discord.DMChannel):
        return None
    return channel.parent if isinstance(channel, discord.Thread) else channel


def _thread(channel: Channel) -> discord.Object | None:
    return discord.Object(channel.id) if isinstance(channel, discord.Thread) else None


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in (_UNKNOWN_WEBHOOK, _INVALID_TOKEN)
