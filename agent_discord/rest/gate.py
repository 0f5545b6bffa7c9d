"""The one way out: every request of ours to Discord passes here, for each bot.

It adds what nothing may leave without: allowed_mentions that ping nobody but the person who is answered, a nonce by
which Discord knows a repeated post, and a sliding window within Discord's 50 requests a second over all routes
(discord.com/developers/docs/topics/rate-limits). Routes' own limits are honoured by py-cord. It takes away what
may leave in no text (redaction.py), and lets nothing pass while Discord refuses too much (refusals.py).
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import aiohttp
import discord
from cachetools import LRUCache

from agent_chat.pins import MAX_PINS
from agent_discord.objects.partial_payloads import UnreadableAnswer, answer_read
from agent_discord.rest.rate_limit import RefusedRequests, RequestWindow
from agent_process.redaction import Redactor


class GateClosed(Exception):
    """Not sent: Discord has refused too many requests of this process."""


class Silenced(GateClosed):
    """Not sent: when its turn had come, it was not to be said any more."""


# What a request can fail with; aiohttp's own errors (a server that hangs up) are no OSError.
CONNECTION_ERRORS = (aiohttp.ClientError, OSError)

REQUEST_ERRORS = (discord.HTTPException, *CONNECTION_ERRORS, GateClosed, UnreadableAnswer)

CUT_PAUSE = 0.5  # seconds before a post whose connection broke is sent once more

MAX_TEXT = 2000  # characters, Discord's own limit

TYPING_SECONDS = 8.0  # Discord shows typing for ten

TYPING_SHARE = 0.4  # of the window; when it is fuller, typing is dropped

REMEMBERED_TYPING = 1000  # channels

PIN_PAGE = 50  # Discord's largest

MOST_SAID = 300  # characters of an error's text


Attach = Callable[[], discord.File]

WebhookChannel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel


T = TypeVar("T")


log = logging.getLogger(__name__)


def nonce(turn_id: str, chunk: int) -> str:
    """The same turn and chunk make the same nonce, at most Discord's 25 characters."""
    return hashlib.blake2b(f"{turn_id}/{chunk}".encode(), digest_size=12).hexdigest()


def pings(user_id: int | None) -> discord.AllowedMentions:
    """Nobody is pinged but the one person whom the turn answers."""
    users: bool | list[discord.abc.Snowflake] = [discord.Object(user_id)] if user_id is not None else False
    return discord.AllowedMentions(everyone=False, roles=False, users=users, replied_user=False)


def shortened(text: str) -> str:
    """At most what fits into one message, and never nothing."""
    text = text.strip() or "…"
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 2].rstrip() + " …"


@dataclass(frozen=True)
class OutboundShared:
    """What all gates of a process share."""

    redact: Redactor = field(default_factory=Redactor)
    refused: RefusedRequests = field(default_factory=RefusedRequests)


class Gate:
    """One bot's way out."""

    def __init__(self, window: RequestWindow | None = None, shared: OutboundShared | None = None) -> None:
        self._window = window or RequestWindow()
        self._shared = shared or OutboundShared()
        self._typed: LRUCache[int, float] = LRUCache(REMEMBERED_TYPING)
        self._may: Callable[[], bool] = lambda: True

    def under(self, may: Callable[[], bool]) -> Gate:
        """The same way out for what leaves only as long as it `may`: a request that stood in line, or whose connection
        broke, is not made after a person's stop. Its methods raise Silenced then."""
        gate = copy.copy(self)
        gate._may = may
        return gate

    def clean(self, text: str) -> str:
        """The text without what may not leave. For a whole text before it is split: half a secret is not found."""
        return self._shared.redact(text)

    async def _enter(self, *, answers: bool = False) -> None:
        """Returns when the request may be sent; raises GateClosed when it may not. `answers`: a person waits for it."""
        self._check_open(answers=answers)
        await self._window.enter()
        self._check_open(answers=answers)  # it may have closed while this one stood in line

    def _check_open(self, *, answers: bool) -> None:
        if not self._may():
            raise Silenced
        if not self._shared.refused.may_pass(answers=answers):
            raise GateClosed

    async def send(
        self,
        channel: discord.abc.Messageable,
        text: str | None,
        *,
        nonce: str,
        ping: int | None = None,
        attach: Attach | None = None,
        embed: discord.Embed | None = None,
        reply_to: discord.MessageReference | None = None,
    ) -> discord.Message:
        """Posts one message; `attach` makes its file, anew for each try. Raises one of REQUEST_ERRORS.

        A broken connection does not tell whether Discord took the post. py-cord gives up there, so it is sent once
        more: by its nonce Discord knows it and answers with the message that stands.
        """
        extras: dict[str, Any] = {"nonce": nonce, "enforce_nonce": True, "allowed_mentions": pings(ping)}
        if embed is not None:
            extras["embed"] = self._clean_embed(embed)
        if reply_to is not None:
            extras["reference"] = reply_to
        text = self.clean(text) if text is not None else None
        try:
            return await self._send(channel, text, attach, extras)
        except CONNECTION_ERRORS as error:
            log.info("a post is sent once more, its connection broke: %s", type(error).__name__)
        await asyncio.sleep(CUT_PAUSE)
        return await self._send(channel, text, attach, extras)

    async def _send(
        self,
        channel: discord.abc.Messageable,
        text: str | None,
        attach: Attach | None,
        extras: dict[str, Any],
    ) -> discord.Message:
        await self._enter(answers=bool(extras["allowed_mentions"].users))
        with answer_read():
            return await channel.send(text, **extras, **self._files(attach))

    async def edit(
        self,
        message: discord.Message,
        text: str | None,
        *,
        attach: Attach | None = None,
        embed: discord.Embed | None = None,
        answers: bool = False,
    ) -> discord.Message:
        """Makes a message of the bot's read so; `attach` adds a file. Raises one of REQUEST_ERRORS.

        The same edit twice does no harm, so one whose connection broke is made once more.
        """
        extras: dict[str, Any] = {"embed": self._clean_embed(embed)} if embed is not None else {}
        text = self.clean(text) if text is not None else None
        for last in (False, True):
            await self._enter(answers=answers)
            try:
                with answer_read():
                    return await message.edit(
                        content=text, allowed_mentions=pings(None), **extras, **self._files(attach)
                    )
            except CONNECTION_ERRORS as error:
                if last:
                    raise
                log.info("an edit is made once more, its connection broke: %s", type(error).__name__)
            await asyncio.sleep(CUT_PAUSE)
        raise AssertionError("the second try ends it")

    @property
    def quiet(self) -> bool:
        """Whether there is room for what may as well come later, or never."""
        return self._shared.refused.may_pass(answers=False) and self._window.is_quiet(TYPING_SHARE)

    async def delete(self, message: discord.Message | discord.PartialMessage) -> None:
        await self._enter()
        await message.delete()  # type: ignore[misc]  # py-cord declares it for Message alone

    def _files(self, attach: Attach | None) -> dict[str, Any]:
        return {"files": [self._file(attach())]} if attach is not None else {}

    def _clean_embed(self, embed: discord.Embed) -> discord.Embed:
        shown = embed.to_dict()
        clean = self._shared.redact.everywhere(shown)
        return embed if clean == shown else discord.Embed.from_dict(clean)

    def _file(self, file: discord.File) -> discord.File:
        """Under a name that tells nothing."""
        file.filename = self.clean(file.filename) if file.filename else file.filename
        file.description = self.clean(file.description) if file.description else file.description
        return file

    async def react(self, message: discord.PartialMessage, emoji: str) -> None:
        await self._enter()
        await message.add_reaction(emoji)  # type: ignore[misc]  # py-cord declares it for Message alone

    async def defer(self, interaction: discord.Interaction) -> None:
        """Announces an answer to a command that only its user will see."""
        await self._enter(answers=True)
        with suppress(UnreadableAnswer), answer_read():
            await interaction.response.defer(ephemeral=True)

    async def answer(
        self, interaction: discord.Interaction, text: str, *, public: bool = False, attach: Attach | None = None
    ) -> None:
        """Answers a command, announced or not: only its user sees it, unless it is `public`; it pings nobody."""
        await self._enter(answers=True)
        text, files = shortened(self.clean(text)), self._files(attach)
        with answer_read():
            if interaction.response.is_done():
                await interaction.edit_original_response(content=text, allowed_mentions=pings(None), **files)
            else:
                hidden = not public
                await interaction.response.send_message(text, ephemeral=hidden, allowed_mentions=pings(None), **files)

    async def show_form(self, interaction: discord.Interaction, form: discord.ui.Modal) -> None:
        """Answers a command with a form; what stands in it was cleaned by who made it."""
        await self._enter(answers=True)
        await interaction.response.send_modal(form)

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """What nobody waits for and holds no text of anybody's. Raises one of REQUEST_ERRORS."""
        await self._enter()
        return await send()

    async def history(
        self, channel: discord.abc.Messageable, limit: int, before: int | None
    ) -> Sequence[discord.Message]:
        """One page, newest first."""
        await self._enter()
        until = discord.Object(before) if before is not None else None
        with answer_read():
            return await channel.history(limit=limit, before=until).flatten()

    async def pins(self, channel: discord.abc.Messageable) -> Sequence[discord.Message]:
        """All that is pinned there, in no order. A page at a time: each one is a request."""
        found: list[discord.MessagePin] = []
        before: datetime | None = None
        while True:
            await self._enter()
            with answer_read():
                page = await channel.pins(limit=PIN_PAGE, before=before).flatten()
            found += page
            if len(page) < PIN_PAGE or len(found) >= MAX_PINS:
                return [pin.message for pin in found]
            before = page[-1].pinned_at

    async def member(self, guild: discord.Guild, user_id: int) -> discord.Member | None:
        """None for one who has left."""
        await self._enter()
        with answer_read():
            try:
                return await guild.fetch_member(user_id)
            except discord.NotFound:
                return None

    async def channel(self, guild: discord.Guild, channel_id: int) -> object:
        """A channel or thread of the guild. Raises discord.InvalidData for one of another, or one of REQUEST_ERRORS."""
        await self._enter()
        return await guild.fetch_channel(channel_id)

    async def message(self, channel: discord.abc.Messageable, message_id: int) -> discord.Message | None:
        """As Discord has it now; None for one that is gone."""
        await self._enter()
        try:
            return await channel.fetch_message(message_id)
        except discord.NotFound:
            return None

    async def givers(self, reaction: discord.Reaction, limit: int) -> Sequence[discord.User | discord.Member]:
        """Who gave a reaction, at most 100."""
        await self._enter()
        return await reaction.users(limit=limit).flatten()

    async def webhooks(self, channel: WebhookChannel) -> Sequence[discord.Webhook]:
        await self._enter()
        with answer_read():
            return await channel.webhooks()

    async def make_webhook(self, channel: WebhookChannel, name: str) -> discord.Webhook:
        await self._enter()
        with answer_read():
            return await channel.create_webhook(name=name)

    async def send_by_webhook(
        self,
        webhook: discord.Webhook,
        text: str,
        *,
        name: str,
        avatar: str | None,
        thread: discord.abc.Snowflake | None,
    ) -> discord.WebhookMessage:
        """Posts under that name. Never twice: webhooks know no nonce."""
        extras: dict[str, Any] = {"avatar_url": avatar} if avatar else {}
        if thread is not None:
            extras["thread"] = thread
        await self._enter()
        with answer_read():
            return await webhook.send(
                self.clean(text), username=self.clean(name), wait=True, allowed_mentions=pings(None), **extras
            )

    async def edit_by_webhook(
        self, webhook: discord.Webhook, message_id: int, text: str, *, thread: discord.abc.Snowflake | None
    ) -> None:
        extras: dict[str, Any] = {"thread": thread} if thread is not None else {}
        await self._enter()
        with answer_read():
            await webhook.edit_message(message_id, content=self.clean(text), allowed_mentions=pings(None), **extras)

    async def typing(self, channel: discord.abc.Messageable, channel_id: int) -> None:
        """Shows typing, unless it was shown eight seconds ago or less, or the window fills up."""
        now = asyncio.get_running_loop().time()
        if now - self._typed.get(channel_id, -TYPING_SECONDS) < TYPING_SECONDS:
            return
        if not self._may() or not self._shared.refused.may_pass(answers=False):
            return
        if not self._window.enter_if_quiet(TYPING_SHARE):
            return
        self._typed[channel_id] = now
        try:
            await channel.trigger_typing()
        except REQUEST_ERRORS as error:
            log.debug("typing in %d not shown: %s", channel_id, type(error).__name__)


def kind(error: BaseException) -> str:
    """An error as a log may tell it."""
    if isinstance(error, discord.HTTPException):
        return f"HTTP {error.status}, code {error.code}"
    return type(error).__name__


def in_full(error: BaseException) -> str:
    """The same with what Discord says of it, in one line: for requests that hold nothing of anybody's."""
    said = " ".join(error.text.split())[:MOST_SAID] if isinstance(error, discord.HTTPException) else ""
    return f"{kind(error)}: {said}" if said else kind(error)
