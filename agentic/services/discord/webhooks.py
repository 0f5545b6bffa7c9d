"""Posts through webhooks under other names: tool calls, and personas without a bot.

Each channel has one webhook of ours; threads use their channel's. Before one is created, we look for an existing one,
by its creator and never by its name, so a restarted process finds it. If somebody deletes it, it is created again, once
for each post. Our posts are known by their ids (agentic.state.posts). A webhook's token, and its URL, let anyone post:
neither is ever logged.

Discord doesn't recognize a repeated webhook post, because it has no nonce. So after a broken connection, a server
error, or a crash, we search the newest messages for a persona's post before sending it again: a message of one of our
webhooks with this name and this text. If these messages can't be read, the post isn't sent again.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar
from weakref import WeakValueDictionary
from zlib import crc32

import aiohttp
import discord
from cachetools import LRUCache

from agentic.chat.directory import BLANK_LETTERS, Directory
from agentic.chat.outlet import (
    CannotPost,
    ChannelView,
    Post,
    Posted,
    SinkWithoutSigns,
    TypingSign,
    ignore_post,
    without_mark,
)
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.channels import Channel, MainChannel, main_channel
from agentic.services.discord.gate import (
    CONNECTION_ERRORS,
    NO_EXTRAS,
    REQUEST_ERRORS,
    RETRY_PAUSE,
    TYPING_REFRESH,
    Extras,
    Gate,
    error_code,
    fit,
    with_file_note,
)
from agentic.services.discord.history import PAGE, PAGE_TIMEOUT
from agentic.services.discord.messages import to_entries
from agentic.services.discord.odd_payloads import UnreadableAnswer
from agentic.services.discord.posts import (
    EarlierPosts,
    MessageGone,
    PostParts,
    explain_failure,
    extras_of,
    put_all,
    text_limit,
    text_with_sources,
)
from agentic.services.discord.rate_limit import RefusedRequests, trace_answers
from agentic.services.discord.view import DiscordView, split_cleaned
from agentic.state.leases import AnyLease, ConditionalLease
from agentic.state.posts import WebhookPosts
from agentic.tools.call_log import posts
from agentic.tools.call_runner import ToolEvent

log = logging.getLogger(__name__)

NAME = "agents"  # Discord rejects names with "discord" in them
MAX_NAME = 80  # characters
TIMEOUT = 10.0  # seconds for a post or an edit, including the webhook's creation
MAX_WEBHOOKS = 1000  # remembered
MAX_WAITING = 40  # posts and edits; a webhook accepts five in two seconds
REMEMBERED = 1000  # calls whose result is awaited
# After these errors nobody knows if the post exists.
UNCERTAIN = (*CONNECTION_ERRORS, TimeoutError, UnreadableAnswer, discord.DiscordServerError)
DEFAULT_AVATARS = 6  # Discord's own (discord.com/developers/docs/reference#image-formatting)

_INVISIBLE = frozenset({"Cf", "Cs", "Co", "Cn"})
_CONTROLS = (*range(32), *range(0x7F, 0xA0))
_LOOK_ALIKES = {ord("@"): "＠", ord("#"): "＃", ord(":"): "：", ord("`"): "'"} | dict.fromkeys(_CONTROLS, " ")
_UNKNOWN_WEBHOOK, _INVALID_TOKEN = 10015, 50027  # discord.com/developers/docs/topics/opcodes-and-status-codes

T = TypeVar("T")
Spot = Callable[[int], "tuple[Channel, WebhookIdentity] | None"]  # channel id → where and as whom to show a call


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """The name and avatar (a URL) of a post. `agent` is the key of the agent whose post it is."""

    agent: str
    name: str
    avatar: str | None = None


class Webhooks:
    """Our webhooks, shared by all bots of a process. Doesn't own `session`."""

    def __init__(
        self, session: aiohttp.ClientSession, directory: Directory, posts: WebhookPosts, refused: RefusedRequests
    ) -> None:
        self._session, self._directory = session, directory
        self.posts = posts  # the record of what was posted
        self._known: dict[int, discord.Webhook] = {}  # by channel
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._warned: set[int] = set()
        session.trace_configs.append(trace_answers(refused))

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None:
        """Post without pings. Return the post's id, or None if it failed, which is logged."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return (await self.post(gate, channel, fit(gate.clean(text)), face)).id
        except CannotPost:
            return None
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("webhook post to %d failed (%d characters): %s", channel.id, len(text), error_code(error))
            return None

    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool:
        """Edit a post. Return False if it failed, for example because the message or its webhook was deleted."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.change(gate, channel, message_id, fit(gate.clean(text)))
        except CannotPost:
            return False
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.info("editing webhook post %d failed: %s", message_id, error_code(error))
            return False
        return True

    # The following methods raise REQUEST_ERRORS, or CannotPost if there can be no webhook.

    async def post(
        self, gate: Gate, channel: Channel, text: str | None, face: WebhookIdentity, extras: Extras = NO_EXTRAS
    ) -> discord.WebhookMessage:
        """Post one message. If the webhook was deleted, it is created again, once."""

        async def send(webhook: discord.Webhook) -> discord.WebhookMessage:
            name, thread = allowed_name(face.name), _thread(channel)
            return await gate.send_by_webhook(webhook, text, extras, name=name, avatar=face.avatar, thread=thread)

        try:
            message = await self._by(gate, channel, send)
        except discord.HTTPException as error:
            if not _is_gone(error):
                raise
            log.info("channel %d: the webhook was deleted; creating another", channel.id)
            message = await self._by(gate, channel, send)
        await self.note(channel.id, message.id, face.agent)
        return message

    async def change(
        self, gate: Gate, channel: Channel, message_id: int, text: str | None, extras: Extras = NO_EXTRAS
    ) -> discord.WebhookMessage:
        edit, thread = gate.edit_by_webhook, _thread(channel)
        return await self._by(gate, channel, lambda webhook: edit(webhook, message_id, text, extras, thread=thread))

    async def delete(self, gate: Gate, channel: Channel, message_id: int) -> None:
        thread = _thread(channel)
        await self._by(gate, channel, lambda webhook: gate.delete_by_webhook(webhook, message_id, thread=thread))

    async def note(self, channel_id: int, message_id: int, agent: str) -> None:
        """Record whose post a message is, for all processes."""
        self._directory.learn_post(message_id, agent)
        await self.posts.add(channel_id, message_id, agent)

    async def ours(self, gate: Gate, channel: Channel) -> frozenset[int]:
        """Return the ids of the webhooks there that our bots created."""
        place = main_channel(channel)
        found = self._made_by_us(await gate.request(place.webhooks)) if place is not None else ()
        return frozenset(webhook.id for webhook in found)

    async def _by(self, gate: Gate, channel: Channel, request: Callable[[discord.Webhook], Awaitable[T]]) -> T:
        """Make a request through the channel's webhook. Forget the webhook if it turns out to be deleted."""
        place = main_channel(channel)
        if place is None:
            raise CannotPost("not_permitted")
        webhook = await self._webhook(gate, place)
        try:
            return await request(webhook)
        except discord.HTTPException as error:
            if _is_gone(error) and self._known.get(place.id) is webhook:
                del self._known[place.id]
            raise

    async def _webhook(self, gate: Gate, place: MainChannel) -> discord.Webhook:
        async with self._locks.setdefault(place.id, asyncio.Lock()):
            if (known := self._known.get(place.id)) is not None:
                return known
            if not place.permissions_for(place.guild.me).manage_webhooks:
                if place.id not in self._warned:
                    self._warned.add(place.id)
                    log.warning("channel %d: posting through webhooks failed: the bot lacks Manage Webhooks", place.id)
                raise CannotPost("not_permitted")
            # Take our oldest one. Discord sends other applications' webhooks without their tokens.
            ours = (webhook for webhook in self._made_by_us(await gate.request(place.webhooks)) if webhook.token)
            found = min(ours, key=lambda webhook: webhook.id, default=None) or await gate.make_webhook(place, NAME)
            assert found.token is not None, "a bot's own webhook comes with its token"
            webhook = discord.Webhook.partial(found.id, found.token, session=self._session)
            self._known[place.id] = webhook
            if len(self._known) > MAX_WEBHOOKS:
                del self._known[next(iter(self._known))]
            return webhook

    def _made_by_us(self, webhooks: Iterable[discord.Webhook]) -> Iterator[discord.Webhook]:
        made = ((webhook, webhook.user) for webhook in webhooks)
        return (one for one, by in made if by is not None and self._directory.agent_of(by.id) is not None)


class ToolDisplay:
    """Shows one agent's tool calls in Discord under the agent's name, while its turn continues.

        call   → a webhook post that begins with a period, so that no bot reads it
        result → the same post with the result, and more posts if it is long

    The turn doesn't wait for posts. A channel's posts are in the order of the calls. A failed post is logged and left
    out; calls are recorded elsewhere (agentic.tools.call_log). `spot` returns None if nothing may be shown now.
    """

    def __init__(self, poster: Webhooks, gate: Gate, spot: Spot) -> None:
        self._poster, self._gate, self._spot = poster, gate, spot
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._shown: LRUCache[str, int] = LRUCache(REMEMBERED)  # record id → the call's post
        self._tasks = BackgroundTasks()

    def show(self, view: ChannelView, event: ToolEvent) -> None:
        if len(self._tasks) >= MAX_WAITING:
            log.warning("channel %d: dropped a call of %s: too many are waiting", view.channel_id, event.record.name)
            return
        lock = self._locks.setdefault(view.channel_id, asyncio.Lock())
        self._tasks.start(self._show(lock, view.channel_id, event), f"showing a call of {event.record.name}")

    async def aclose(self) -> None:
        """Drop calls that aren't shown yet."""
        await self._tasks.cancel()

    async def _show(self, lock: asyncio.Lock, channel_id: int, event: ToolEvent) -> None:
        record, is_call = event.record, event.kind == "call"
        async with lock:  # acquired in the order of requests
            message_id, spot = None if is_call else self._shown.pop(record.id, None), self._spot(channel_id)
            if spot is None or (message_id is None and not is_call):  # no result without a shown call
                return
            # A post takes a while (find or create a webhook, retry): the bots may have been stopped meanwhile.
            gate = self._gate.under(ConditionalLease(lambda: self._spot(channel_id) is not None))
            (channel, face), (first, *more) = spot, posts(record.agent, record)
            if message_id is None:
                if (message_id := await self._poster.send(gate, channel, first, face)) is not None:
                    self._shown[record.id] = message_id
                return
            await self._poster.edit(gate, channel, message_id, first)
            for text in more:
                await self._poster.send(gate, channel, text, face)


class WebhookWriter:
    """Writes a persona's messages in one channel. Every method raises CannotPost if it fails. `lease` is checked before
    each request."""

    def __init__(self, view: DiscordView, webhooks: Webhooks, face: WebhookIdentity, *, lease: AnyLease) -> None:
        self._view, self._channel, self._webhooks, self._face = view, view.channel, webhooks, face
        self._gate, self._lease = view.gate.under(lease), lease
        self._shown = allowed_name(view.gate.clean(face.name))

    async def send(self, text: str | None, extras: Extras, nonce: str) -> discord.Message:
        del nonce
        newest = self._view.transcript.newest
        with explain_failure(self._channel.id, text):
            try:
                return await self._send(text, extras)
            except UNCERTAIN as error:
                problem: Exception = error
            if (found := await self._find(text, newest, problem)) is not None:
                return found
            try:
                return await self._send(text, extras)
            except UNCERTAIN as error:
                if extras.attach is None:
                    raise
                problem = error
            # Some servers and proxies cut an upload that they refuse, without a 413.
            if (found := await self._find(text, newest, problem)) is not None:
                return found
            noted = with_file_note(self._gate.clean(text) if text is not None else None, extras.attach, problem)
            return await self._send(noted, replace(extras, attach=None))

    async def _find(self, text: str | None, after: int, problem: BaseException) -> discord.Message | None:
        """Find a post that may exist although its request failed."""
        log.info("webhook post to channel %d is uncertain: %s; searching for it", self._channel.id, error_code(problem))
        await asyncio.sleep(RETRY_PAUSE)
        return EarlierPosts(await self.since(after)).take(text, "")

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        """Edit a message. Raises MessageGone if it was deleted."""
        with explain_failure(self._channel.id, text):
            try:
                return await self._webhooks.change(self._gate, self._channel, message.id, text, extras)
            except discord.NotFound as error:
                raise MessageGone from error

    async def remove(self, message: discord.Message) -> None:
        with explain_failure(self._channel.id):
            try:
                await self._webhooks.delete(self._gate, self._channel, message.id)
            except discord.NotFound:
                log.debug("message %d was already deleted", message.id)

    async def since(self, after: int) -> Sequence[discord.Message]:
        """Return the persona's own posts after a message, as Discord has them now."""
        try:
            async with asyncio.timeout(PAGE_TIMEOUT):
                ours = await self._webhooks.ours(self._gate, self._channel)
                page = await self._gate.history(self._channel, PAGE, None)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: searching for an earlier post failed: %s", self._channel.id, error_code(error))
            raise CannotPost("not_ours" if not self._lease.is_held else "discord_failed") from error
        own = [one for one in page if one.id > after and one.webhook_id in ours and one.author.name == self._shown]
        for message in own:
            await self._webhooks.note(self._channel.id, message.id, self._face.agent)
        return own

    async def _send(self, text: str | None, extras: Extras) -> discord.Message:
        if not self._lease.is_held:
            raise CannotPost("not_ours")
        async with asyncio.timeout(TIMEOUT):
            message = await self._webhooks.post(self._gate, self._channel, text, self._face, extras)
        # Add own posts from REST's answer: the next turn may come before the gateway's event.
        for entry in to_entries((message,), self._view.transcripts.directory):
            self._view.transcript.add(entry)
        return message


class WebhookSink(SinkWithoutSigns):
    """A channel or thread as a persona without an account writes to it.

    A persona adds no reactions, because a webhook can only post. While it thinks, the bot that posts for it shows
    typing. A post isn't streamed: it appears whole. `names` are the agents' names by key; `lease` is checked before
    each request.
    """

    may_attach = True
    may_react = False
    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self, view: DiscordView, webhooks: Webhooks, face: WebhookIdentity, *, names: Mapping[str, str], lease: AnyLease
    ) -> None:
        self._view, self._names = view, names
        self._channel_names: Mapping[str, str] = {}
        self._typing_gate = view.gate.under(lease)
        self._writer = WebhookWriter(view, webhooks, face, lease=lease)

    def refusal(self) -> str | None:
        """Return why the persona may not take a turn here, or None if it may. Webhooks can write in locked threads."""
        return None if may_use_webhooks(self._view.channel) else "not_permitted"

    def set_channel_names(self, channel_names: Mapping[str, str]) -> None:
        """Add names of agents, by key, that the persona may mention as `@name`."""
        self._channel_names = channel_names

    def typing(self) -> TypingSign:
        async def show(shown: bool) -> None:
            if shown:  # Discord ends it on its own
                await self._typing_gate.typing(self._view.channel, self._view.channel.id)

        return TypingSign(show, self._background, TYPING_REFRESH)

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignore_post) -> Posted:
        """Post text and picture as one message, or as several if the text is too long, without pings. See put_all."""
        earlier = EarlierPosts(await self._writer.since(post.after) if post.after is not None else ())
        parts = PostParts(self._writer, turn_id, earlier)
        text = without_mark(text_with_sources(post))
        parts_of_text = split_cleaned(self._view, text, text_limit(post, MAX_MESSAGE), self._names, self._channel_names)
        texts: list[str | None] = [*parts_of_text] or [None]
        return await put_all(parts, texts, await extras_of(post, self._view.channel, embeds=True), noted)


def allowed_name(name: str) -> str:
    """Change a name so that Discord accepts it for a webhook's post.

    Discord requires 1 to 80 visible characters, no "discord" or "clyde" in any spelling, not just "everyone" or "here",
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
    """Return the name in lower case, with plain letters instead of fancy forms, and of the same length."""
    return "".join(unicodedata.normalize("NFKC", char).casefold()[:1] or char for char in name)


def may_use_webhooks(channel: Channel) -> bool:
    """Return whether the bot may create and use a webhook there."""
    place = main_channel(channel)
    return place is not None and place.permissions_for(place.guild.me).manage_webhooks


def _thread(channel: Channel) -> discord.Object | None:
    return discord.Object(channel.id) if isinstance(channel, discord.Thread) else None


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in (_UNKNOWN_WEBHOOK, _INVALID_TOKEN)


def default_avatar(agent: str) -> str:
    """Return one of Discord's default avatars, always the same for an agent."""
    return f"https://cdn.discordapp.com/embed/avatars/{crc32(agent.encode()) % DEFAULT_AVATARS}.png"
