"""The gate: the only module that sends requests to Discord. Each bot has its own gate.

It adds allowed_mentions that ping at most the person who gets the answer, and a nonce by which Discord recognizes a
repeated post. It removes secrets from every text (agentic.process.redaction). It stays below Discord's 50 requests per
second over all routes (discord.com/developers/docs/topics/rate-limits), while py-cord handles each route's own limit,
and it stops sending while Discord refuses too many requests (rate_limit.py).

A request fails with py-cord's discord.HTTPException, with aiohttp's error for a broken connection, with
UnreadableAnswer (sent, but the answer can't be parsed), or with GateClosed (not sent).
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
import mimetypes
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

import aiohttp
import discord
from cachetools import LRUCache

from agentic.chat.splitting import MAX_MESSAGE, length, split_text
from agentic.chat.transcript import MAX_PINS
from agentic.process.redaction import Redactor
from agentic.services.discord.channels import MainChannel
from agentic.services.discord.odd_payloads import UnreadableAnswer, answer_read
from agentic.services.discord.rate_limit import RefusedRequests, RequestWindow
from agentic.state.leases import ALWAYS_HELD, AnyLease

log = logging.getLogger(__name__)

MAX_ERROR_TEXT = 300  # characters of Discord's own text
FILE_NOTE_ROOM = 50  # characters for the note about a rejected file, including the line break before it
_TOO_LARGE_CODES = (40005, 50045)  # request entity too large, file exceeds the maximum size
_NOT_OF_THE_FILE = (401, 404, 429)  # statuses
_MISSING_ACCESS = 50001
_FILE_NOTE = re.compile(r"\n?-# The (?:picture|file) (?:was too large to post|could not be posted) here\.\Z")
_MORE = "\n… (cut here: too long for Discord)"
Attach = Callable[[], discord.File]
T = TypeVar("T")
RETRY_PAUSE = 0.5  # seconds before a post whose connection broke is sent once more
PIN_PAGE = 50  # Discord's largest page
MAX_POLL_QUESTION = 300  # characters
TYPING_SECONDS = 8.0  # Discord shows typing for ten
TYPING_REFRESH = TYPING_SECONDS + 0.25  # a bit more than the gate's pause, or every other request would be dropped
TYPING_SHARE = 0.4  # of the window; if it is fuller, typing is skipped
MAX_TYPED = 1000  # channels remembered


class GateClosed(Exception):
    """Not sent: Discord has refused too many requests of this process."""


class Silenced(GateClosed):
    """Not sent: the lease was lost while the request waited."""


CONNECTION_ERRORS = (aiohttp.ClientError, OSError)  # aiohttp's error for a server that hangs up isn't an OSError
REQUEST_ERRORS = (discord.HTTPException, *CONNECTION_ERRORS, GateClosed, UnreadableAnswer)


def error_code(error: BaseException) -> str:
    """Describe an error for the log without its text, which may contain the request's content."""
    if isinstance(error, discord.HTTPException):
        return f"HTTP {error.status}, code {error.code}"
    return type(error).__name__


def error_text(error: BaseException) -> str:
    """Describe an error for the log with Discord's text. Only for requests without people's messages."""
    said = " ".join(error.text.split())[:MAX_ERROR_TEXT] if isinstance(error, discord.HTTPException) else ""
    return f"{error_code(error)}: {said}" if said else error_code(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """The parts of a message other than its text. `ping` is the user id of the person who gets the answer. An edit
    pings nobody, but with `ping` it passes while only answers do. `reply_to` is the id of the message it replies to."""

    ping: int | None = None
    reply_to: int | None = None
    attach: Attach | None = None
    embed: discord.Embed | None = None
    poll: discord.Poll | None = None  # of a new message


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class OutboundShared:
    """Shared by all gates of a process."""

    redact: Redactor = field(default_factory=Redactor)
    refused: RefusedRequests = field(default_factory=RefusedRequests)

    def clean_file(self, file: discord.File) -> discord.File:
        """Clean a file's name and description. Its content is not checked."""
        file.filename = self.redact(file.filename) if file.filename else file.filename
        file.description = self.redact(file.description) if file.description else file.description
        return file


def nonce(turn_id: str, chunk: int) -> str:
    """Return the nonce of a turn's chunk, always the same, within Discord's 25 characters."""
    return hashlib.blake2b(f"{turn_id}/{chunk}".encode(), digest_size=12).hexdigest()


def pings(user_id: int | None) -> discord.AllowedMentions:
    """Allow a ping for this user only, or for nobody."""
    users: bool | list[discord.abc.Snowflake] = [discord.Object(user_id)] if user_id is not None else False
    return discord.AllowedMentions(everyone=False, roles=False, users=users, replied_user=False)


def may_be_the_file(error: discord.HTTPException) -> bool:
    """Return whether a refused request with a file may succeed without the file.

    Discord refuses files for their size (or a proxy does, with a 413 without JSON), their type or content, and a
    missing permission, with ever new codes. So this returns True for every refusal that isn't about the account, the
    channel, or the rate: one more request will tell.
    """
    return error.status < 500 and error.status not in _NOT_OF_THE_FILE and error.code != _MISSING_ACCESS


def with_file_note(text: str | None, attach: Attach, error: Exception) -> str:
    """Return the text with a line at the end that says why its file is missing."""
    kind = mimetypes.guess_type(attach().filename or "")[0] or ""
    noun = "picture" if kind.startswith("image/") else "file"
    too_large = isinstance(error, discord.HTTPException) and (error.status == 413 or error.code in _TOO_LARGE_CODES)
    note = f"-# The {noun} {'was too large to post' if too_large else 'could not be posted'} here."
    if not text:
        return note
    if length(text) > MAX_MESSAGE - FILE_NOTE_ROOM:
        text = split_text(text, MAX_MESSAGE - FILE_NOTE_ROOM - 2)[0] + " …"
    return f"{text}\n{note}"


def without_file_note(text: str) -> str:
    """Undo `with_file_note`."""
    return _FILE_NOTE.sub("", text)


def fit(text: str) -> str:
    """Cut a text to one message, with a note. An empty text becomes "…"."""
    text = text.strip() or "…"
    return text if length(text) <= MAX_MESSAGE else split_text(text, MAX_MESSAGE - length(_MORE))[0] + _MORE


def _is_choice(interaction: discord.Interaction) -> bool:
    return interaction.type is discord.InteractionType.component


class Gate:
    """Sends one bot's requests. Unless a method's docstring says otherwise, it raises one of REQUEST_ERRORS."""

    def __init__(self, window: RequestWindow | None = None, shared: OutboundShared | None = None) -> None:
        self._window = window or RequestWindow()
        self._shared = shared or OutboundShared()
        self._typed: LRUCache[int, float] = LRUCache(MAX_TYPED)
        self._lease: AnyLease = ALWAYS_HELD

    def under(self, lease: AnyLease) -> Gate:
        """Return the same gate for requests that are sent only while `lease` is held. If a person stops the bots while
        a request waits or before it is repeated, it raises Silenced."""
        gate = copy.copy(self)
        gate._lease = lease
        return gate

    @property
    def quiet(self) -> bool:
        """Whether the rate limit has room for an optional request."""
        return self._shared.refused.may_pass(answers=False) and self._window.is_quiet(TYPING_SHARE)

    async def _enter(self, *, answers: bool = False) -> None:
        """Wait until a request may be sent. `answers`: a person is waiting for it. Raises GateClosed."""
        self._check_open(answers=answers)
        if await self._window.enter():
            self._check_open(answers=answers)  # it may have closed meanwhile

    @asynccontextmanager
    async def _passing(self, *, answers: bool = False) -> AsyncIterator[None]:
        """Wait until the request in the `with` block may be sent. Raises GateClosed, UnreadableAnswer."""
        await self._enter(answers=answers)
        with answer_read():
            yield

    def _check_open(self, *, answers: bool) -> None:
        if not self._lease.is_held:
            raise Silenced
        if not self._shared.refused.may_pass(answers=answers):
            raise GateClosed

    def clean(self, text: str) -> str:
        """Remove secrets from a text. Clean a text before splitting it: half a secret isn't recognized."""
        return self._shared.redact(text)

    async def _with_or_without_file(
        self, request: Callable[[str | None, dict[str, Any]], Awaitable[T]], text: str | None, attach: Attach | None
    ) -> T:
        """Make a request with a cleaned text and a file. If Discord refuses the file, send the text without it, with a
        note. A refused request posts nothing, so nothing is posted twice."""
        text = self.clean(text) if text is not None else None
        if attach is None:
            return await request(text, {})
        try:
            return await request(text, {"files": [self._shared.clean_file(attach())]})
        except discord.HTTPException as error:
            if not may_be_the_file(error):
                raise
            log.warning("Discord refused a post with a file: %s; posting it without the file", error_code(error))
            text = with_file_note(text, attach, error)
        return await request(text, {})

    async def send(
        self,
        channel: discord.abc.Messageable,
        text: str | None,
        extras: Extras = NO_EXTRAS,
        *,
        nonce: str,
        reply_to: discord.MessageReference | None = None,
    ) -> discord.Message:
        """Post one message.

        After a broken connection nobody knows if Discord got the post, and py-cord gives up. Here it is sent once more:
        if the message exists, Discord recognizes its nonce and returns it.
        """
        more = self._more(extras, {"nonce": nonce, "enforce_nonce": True, "allowed_mentions": pings(extras.ping)})
        if reply_to is not None:
            more["reference"] = reply_to
        if (poll := extras.poll) is not None:
            poll.question.text = self.clean(poll.question.text)[:MAX_POLL_QUESTION]
            more["poll"] = poll

        async def post(text: str | None, files: dict[str, Any]) -> discord.Message:
            async with self._passing(answers=extras.ping is not None):
                return await channel.send(text, **more, **files)

        return await self._with_retries(post, text, extras.attach)

    async def edit(self, message: discord.Message, text: str | None, extras: Extras = NO_EXTRAS) -> discord.Message:
        """Edit one of the bot's messages. After a broken connection the edit is repeated, which does no harm."""
        more = self._more(extras)

        async def change(text: str | None, files: dict[str, Any]) -> discord.Message:
            async with self._passing(answers=extras.ping is not None):
                return await message.edit(content=text, **more, **files)

        return await self._with_retries(change, text, extras.attach)

    async def edit_by_id(self, message: discord.PartialMessage, text: str) -> None:
        """Edit one of the bot's messages by its id."""
        async with self._passing():
            await message.edit(content=self.clean(text), allowed_mentions=pings(None))

    async def _with_retries(
        self, request: Callable[[str | None, dict[str, Any]], Awaitable[T]], text: str | None, attach: Attach | None
    ) -> T:
        """Make a request, and repeat it once if its connection broke. If it breaks twice with a file, send the text
        without it: some servers and proxies cut off an upload that they refuse, without a 413."""
        try:
            return await self._with_or_without_file(request, text, attach)
        except CONNECTION_ERRORS as error:
            log.info("the connection to Discord broke during a post: %s; sending it again", error_code(error))
        await asyncio.sleep(RETRY_PAUSE)
        try:
            return await self._with_or_without_file(request, text, attach)
        except CONNECTION_ERRORS as error:
            if attach is None:
                raise
            log.warning("the connection broke again during a post: %s; posting it without its file", error_code(error))
            text = with_file_note(self.clean(text) if text is not None else None, attach, error)
        return await request(text, {})

    async def delete(self, message: discord.Message | discord.PartialMessage) -> None:
        await self._enter()
        await message.delete()  # type: ignore[misc]  # py-cord declares it for Message alone

    async def react(self, message: discord.PartialMessage, emoji: str) -> None:
        await self._enter()
        await message.add_reaction(emoji)  # type: ignore[misc]  # py-cord declares it for Message alone

    async def typing(self, channel: discord.abc.Messageable, channel_id: int) -> None:
        """Show typing, unless it was shown in the last eight seconds or the rate limit is near. Raises nothing."""
        now = asyncio.get_running_loop().time()
        if now - self._typed.get(channel_id, -TYPING_SECONDS) < TYPING_SECONDS:
            return
        if not self._lease.is_held or not self._shared.refused.may_pass(answers=False):
            return
        if not self._window.enter_if_quiet(TYPING_SHARE):
            return
        self._typed[channel_id] = now
        try:
            await channel.trigger_typing()
        except REQUEST_ERRORS as error:
            log.debug("channel %d: showing typing failed: %s", channel_id, error_code(error))

    async def start_thread(self, channel: discord.TextChannel, message_id: int, name: str, minutes: int) -> None:
        """Start a public thread at a message. Discord archives it after `minutes` without a message."""
        async with self._passing(answers=True):
            await channel.create_thread(
                name=self.clean(name),
                message=discord.Object(message_id),
                auto_archive_duration=minutes,  # type: ignore[arg-type]
            )

    async def defer(self, interaction: discord.Interaction) -> None:
        """Announce an answer to a command, visible only to its user. A menu stays until the answer replaces it."""
        with suppress(UnreadableAnswer):
            async with self._passing(answers=True):
                await interaction.response.defer(ephemeral=True, invisible=_is_choice(interaction))

    async def answer(
        self,
        interaction: discord.Interaction,
        text: str,
        *,
        public: bool = False,
        attach: Attach | None = None,
        view: discord.ui.View | None = None,
        more: str = "",
    ) -> None:
        """Answer a command, announced or not. Only its user sees the answer, unless it is `public`; it pings nobody.
        The answer to a choice from a menu replaces the menu. `more` follows as a second message, for the user only."""
        extras: dict[str, Any] = {"allowed_mentions": pings(None), "view": view}

        async def respond(text: str | None, files: dict[str, Any]) -> None:
            async with self._passing(answers=True):
                if interaction.response.is_done():
                    await interaction.edit_original_response(content=text, **extras, **files)
                elif _is_choice(interaction):
                    await interaction.response.edit_message(content=text, **extras, **files)
                else:
                    await interaction.response.send_message(text, ephemeral=not public, **extras, **files)

        await self._with_or_without_file(respond, fit(self.clean(text)), attach)
        if more:
            async with self._passing(answers=True):
                await interaction.followup.send(fit(self.clean(more)), ephemeral=True, allowed_mentions=pings(None))

    async def show_form(self, interaction: discord.Interaction, form: discord.ui.Modal) -> None:
        """Answer a command with a form, whose texts are already cleaned."""
        await self._enter(answers=True)
        await interaction.response.send_modal(form)

    async def offer(self, interaction: discord.Interaction, choices: list[discord.OptionChoice]) -> None:
        """Show choices for an option while it is being typed."""
        await self._enter(answers=True)
        await interaction.response.send_autocomplete_result(choices=choices)

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """Make any other request that nobody is waiting for and that contains no people's messages."""
        async with self._passing():
            return await send()

    async def history(
        self, channel: discord.abc.Messageable, limit: int, before: int | None
    ) -> Sequence[discord.Message]:
        """Return one page of messages, newest first."""
        until = discord.Object(before) if before is not None else None
        async with self._passing():
            return await channel.history(limit=limit, before=until).flatten()

    async def pins(self, channel: discord.abc.Messageable) -> Sequence[discord.Message]:
        """Return all pinned messages, in no order. Each page is a request."""
        found: list[discord.MessagePin] = []
        before: datetime | None = None
        while True:
            async with self._passing():
                page = await channel.pins(limit=PIN_PAGE, before=before).flatten()
            found += page
            if len(page) < PIN_PAGE or len(found) >= MAX_PINS:
                return [pin.message for pin in found]
            before = page[-1].pinned_at

    async def member(self, guild: discord.Guild, user_id: int) -> discord.Member | None:
        """Return a member, or None if the user has left."""
        async with self._passing():
            try:
                return await guild.fetch_member(user_id)
            except discord.NotFound:
                return None

    async def channel(self, guild: discord.Guild, channel_id: int) -> object:
        """Return a channel or thread of the guild. Raises discord.InvalidData for another guild's."""
        await self._enter()
        return await guild.fetch_channel(channel_id)

    async def message(self, channel: discord.abc.Messageable, message_id: int) -> discord.Message | None:
        """Return the message as Discord has it now, or None if it is deleted."""
        await self._enter()
        try:
            return await channel.fetch_message(message_id)
        except discord.NotFound:
            return None

    async def givers(self, reaction: discord.Reaction, limit: int) -> Sequence[discord.User | discord.Member]:
        """Return the users who gave a reaction, at most `limit` (up to 100). Super reactions take a second request."""
        await self._enter()
        found = await reaction.users(limit=limit).flatten()
        if reaction.count_details.burst:
            await self._enter()
            found += await reaction.users(limit=limit, type=discord.ReactionType.burst).flatten()
        return found[:limit]

    async def make_webhook(self, channel: MainChannel, name: str) -> discord.Webhook:
        async with self._passing():
            return await channel.create_webhook(name=name)

    async def send_by_webhook(
        self,
        webhook: discord.Webhook,
        text: str | None,
        extras: Extras = NO_EXTRAS,
        *,
        name: str,
        avatar: str | None,
        thread: discord.abc.Snowflake | None,
    ) -> discord.WebhookMessage:
        """Post under this name. It is never repeated after a broken connection: a webhook's post has no nonce."""
        more = self._more(extras, {"avatar_url": avatar or None, "thread": thread})

        async def post(text: str | None, files: dict[str, Any]) -> discord.WebhookMessage:
            said = text if text is not None else discord.utils.MISSING
            async with self._passing():
                return await webhook.send(said, username=self.clean(name), wait=True, **more, **files)

        return await self._with_or_without_file(post, text, extras.attach)

    async def edit_by_webhook(
        self,
        webhook: discord.Webhook,
        message_id: int,
        text: str | None,
        extras: Extras = NO_EXTRAS,
        *,
        thread: discord.abc.Snowflake | None,
    ) -> discord.WebhookMessage:
        more = self._more(extras, {"thread": thread})

        async def change(text: str | None, files: dict[str, Any]) -> discord.WebhookMessage:
            async with self._passing():
                return await webhook.edit_message(message_id, content=text, **more, **files)

        return await self._with_or_without_file(change, text, extras.attach)

    async def delete_by_webhook(
        self, webhook: discord.Webhook, message_id: int, *, thread: discord.abc.Snowflake | None
    ) -> None:
        await self._enter()
        await webhook.delete_message(message_id, thread_id=thread.id if thread is not None else None)

    def _more(self, extras: Extras, more: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Return the arguments for py-cord. By default nobody is pinged."""
        shown = self._shared.redact.everywhere(extras.embed.to_dict()) if extras.embed is not None else None
        embed = discord.Embed.from_dict(shown) if shown is not None else None
        given = {"allowed_mentions": pings(None), **more, "embed": embed}
        return {name: value for name, value in given.items() if value is not None}
