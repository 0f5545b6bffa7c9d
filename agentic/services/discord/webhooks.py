"""Posts under a name of their own, by a webhook: tool calls, personas without a bot.

Each channel has one webhook of ours; threads use their channel's. It is looked for before it is made, by its creator
and never by its name, so a restarted process finds it. A webhook that somebody deleted is recreated, once for each
post. Our posts are known by their ids (agentic.state.posts). A webhook's token is as good as its address:
neither is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakValueDictionary

import aiohttp
import discord

from agentic.chat.directory import BLANK_LETTERS, Directory, WebhookPostStore
from agentic.chat.splitting import length, split_text
from agentic.services.discord.channels import Channel
from agentic.services.discord.errors import REQUEST_ERRORS, kind
from agentic.services.discord.gate import Gate, WebhookChannel
from agentic.services.discord.multipart import LIMIT, NO_EXTRAS, Extras
from agentic.services.discord.rate_limit import RefusedRequests, count_webhooks

NAME = "agents"  # Discord takes no name with "discord" in it
MAX_NAME = 80  # characters
TIMEOUT = 10.0  # seconds for a post or an edit with all that it needs
MAX_WEBHOOKS = 1000  # remembered

_INVISIBLE = frozenset({"Cf", "Cs", "Co", "Cn"})
_LOOK_ALIKES = {ord("@"): "＠", ord("#"): "＃", ord(":"): "：", ord("`"): "'"} | dict.fromkeys(
    (*range(32), *range(0x7F, 0xA0)), " "
)
_UNKNOWN_WEBHOOK, _INVALID_TOKEN = 10015, 50027  # discord.com/developers/docs/topics/opcodes-and-status-codes
_MORE = "\n… (cut here: too long for Discord)"

T = TypeVar("T")

log = logging.getLogger(__name__)


class NoWebhook(Exception):
    """There is none, and the bot may make none: a direct message, or the permission is lacking, which is logged."""


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

    @property
    def posts(self) -> WebhookPostStore:
        """The record of what was posted."""
        return self._posts

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        """Posts, pings nobody, and returns the post's id; None where it failed, which is logged."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return (await self.post(gate, channel, fitting(gate.clean(text)), face)).id
        except NoWebhook:
            return None
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("webhook post to channel %d failed (%d characters): %s", channel.id, len(text), kind(error))
            return None

    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool:
        """Edits a post; False where it failed, for instance since the message or its webhook was deleted."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.change(gate, channel, message_id, fitting(gate.clean(text)))
        except NoWebhook:
            return False
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.info("webhook post %d could not be edited: %s", message_id, kind(error))
            return False
        return True

    # -- for those that need the reason: these raise NoWebhook and REQUEST_ERRORS -------------------------------------

    async def post(
        self, gate: Gate, channel: Channel, text: str | None, face: WebhookIdentity, extras: Extras = NO_EXTRAS
    ) -> discord.WebhookMessage:
        """Posts one message. Where the webhook was deleted it is recreated, once."""

        async def send(webhook: discord.Webhook) -> discord.WebhookMessage:
            return await gate.send_by_webhook(
                webhook,
                text,
                name=allowed_name(face.name),
                avatar=face.avatar,
                thread=_thread(channel),
                attach=extras.attach,
                embed=extras.embed,
            )

        try:
            message = await self._by(gate, channel, send)
        except discord.HTTPException as error:
            if not _is_gone(error):
                raise
            log.info("channel %d: its webhook was deleted, recreating it", channel.id)
            message = await self._by(gate, channel, send)
        await self.note(channel.id, message.id, face.agent)
        return message

    async def change(
        self, gate: Gate, channel: Channel, message_id: int, text: str | None, extras: Extras = NO_EXTRAS
    ) -> discord.WebhookMessage:
        """Edits a post."""
        thread, attach, embed = _thread(channel), extras.attach, extras.embed
        return await self._by(
            gate,
            channel,
            lambda webhook: gate.edit_by_webhook(webhook, message_id, text, thread=thread, attach=attach, embed=embed),
        )

    async def delete(self, gate: Gate, channel: Channel, message_id: int) -> None:
        """Deletes a post."""
        thread = _thread(channel)
        await self._by(gate, channel, lambda webhook: gate.delete_by_webhook(webhook, message_id, thread=thread))

    async def note(self, channel_id: int, message_id: int, agent: str) -> None:
        """Remembers whose post a message is, in all processes."""
        self._directory.learn_post(message_id, agent)
        await self._posts.add(channel_id, message_id, agent)

    async def ours(self, gate: Gate, channel: Channel) -> frozenset[int]:
        """The ids of the webhooks there that our bots made."""
        place = _place(channel)
        found = self._made_by_us(await gate.webhooks(place)) if place is not None else ()
        return frozenset(webhook.id for webhook in found)

    async def _by(self, gate: Gate, channel: Channel, request: Callable[[discord.Webhook], Awaitable[T]]) -> T:
        """Makes a request by the channel's webhook; one that turns out to be gone is forgotten."""
        place = _place(channel)
        if place is None:
            raise NoWebhook
        webhook = await self._webhook(gate, place)
        try:
            return await request(webhook)
        except discord.HTTPException as error:
            if _is_gone(error) and self._known.get(place.id) is webhook:
                del self._known[place.id]
            raise

    async def _webhook(self, gate: Gate, place: WebhookChannel) -> discord.Webhook:
        async with self._locks.setdefault(place.id, asyncio.Lock()):
            known = self._known.get(place.id)
            if known is not None:
                return known
            if not place.permissions_for(place.guild.me).manage_webhooks:
                self._warn(place.id)
                raise NoWebhook
            found = await self._find(gate, place) or await gate.make_webhook(place, NAME)
            assert found.token is not None, "a bot's own webhook comes with its token"
            webhook = discord.Webhook.partial(found.id, found.token, session=self._session)
            self._known[place.id] = webhook
            if len(self._known) > MAX_WEBHOOKS:
                del self._known[next(iter(self._known))]
            return webhook

    async def _find(self, gate: Gate, place: WebhookChannel) -> discord.Webhook | None:
        """The oldest webhook of ours. Another application's comes without its token."""
        ours = (webhook for webhook in self._made_by_us(await gate.webhooks(place)) if webhook.token)
        return min(ours, key=lambda webhook: webhook.id, default=None)

    def _made_by_us(self, webhooks: Iterable[discord.Webhook]) -> Iterator[discord.Webhook]:
        makers = ((webhook, webhook.user) for webhook in webhooks)
        return (one for one, by in makers if by is not None and self._directory.agent_of(by.id) is not None)

    def _warn(self, channel_id: int) -> None:
        if channel_id not in self._warned:
            self._warned.add(channel_id)
            log.warning("channel %d: nothing is posted by webhook, the bot lacks Manage Webhooks there", channel_id)


def allowed_name(name: str) -> str:
    """Return the name as Discord accepts it for a webhook's post.

    Discord wants 1 to 80 visible characters, no "discord" or "clyde" in any spelling, not "everyone" or "here" alone,
    and no characters that begin a mention or code (discord.com/developers/docs/resources/webhook#create-webhook).
    """
    visible = (char for char in name if unicodedata.category(char) not in _INVISIBLE and char not in BLANK_LETTERS)
    name = " ".join("".join(visible).translate(_LOOK_ALIKES).split()).lstrip("＠ ")
    for word in ("discord", "clyde"):
        at = _plain(name).find(word)
        while at >= 0:
            name = f"{name[: at + 1]}.{name[at + 1 :]}"
            at = _plain(name).find(word)
    if _plain(name).strip() in ("everyone", "here"):
        name = f"{name[:1]}.{name[1:]}"
    name = name[:MAX_NAME]
    while length(name) > MAX_NAME:
        name = name[:-1]
    return name.strip() or NAME


def _plain(name: str) -> str:
    """Return the name in lower case and in plain letters where it has other forms of them, of the same length."""
    return "".join(unicodedata.normalize("NFKC", char).casefold()[:1] or char for char in name)


def fitting(text: str) -> str:
    """The text as one message; a longer one is cut, with a note."""
    if length(text) <= LIMIT:
        return text
    return split_text(text, LIMIT - length(_MORE))[0] + _MORE if text.strip() else "…"


def may_use_webhooks(channel: Channel) -> bool:
    """Whether the bot may make and use a webhook for posts there."""
    place = _place(channel)
    return place is not None and place.permissions_for(place.guild.me).manage_webhooks


def _place(channel: Channel) -> WebhookChannel | None:
    """The channel that has the webhook: a thread has none of its own, a direct message none at all."""
    if isinstance(channel, discord.DMChannel):
        return None
    return channel.parent if isinstance(channel, discord.Thread) else channel


def _thread(channel: Channel) -> discord.Object | None:
    return discord.Object(channel.id) if isinstance(channel, discord.Thread) else None


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in (_UNKNOWN_WEBHOOK, _INVALID_TOKEN)
