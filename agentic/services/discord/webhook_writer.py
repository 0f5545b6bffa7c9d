"""Sends, changes and deletes a persona's messages in one channel, by its webhook.

Discord does not recognise a repeated webhook post: it has no nonce. So after a broken connection, a server error or a
crash a post is looked for among the newest messages before it is made again: a message of one of our webhooks, with
this name and this text. Where these messages cannot be read, it is not made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import discord

from agentic.chat.outlet import CannotPost
from agentic.services.discord.channel_view import DiscordView
from agentic.services.discord.errors import CONNECTION_ERRORS, REQUEST_ERRORS, kind
from agentic.services.discord.gate import RETRY_PAUSE
from agentic.services.discord.history import PAGE, PAGE_TIMEOUT
from agentic.services.discord.message_writer import cannot_post
from agentic.services.discord.messages import to_entries
from agentic.services.discord.multipart import EarlierPosts, Extras, MessageGone
from agentic.services.discord.outbound import with_file_note
from agentic.services.discord.partial_payloads import UnreadableAnswer
from agentic.services.discord.webhooks import TIMEOUT, NoWebhook, WebhookIdentity, Webhooks, allowed_name

# After these nobody knows whether the post is there.
UNCERTAIN = (*CONNECTION_ERRORS, TimeoutError, UnreadableAnswer, discord.DiscordServerError)

log = logging.getLogger(__name__)


class WebhookWriter:
    """Every method raises CannotPost where it fails. `may_post` is asked before each request."""

    def __init__(
        self, view: DiscordView, webhooks: Webhooks, face: WebhookIdentity, *, may_post: Callable[[], bool]
    ) -> None:
        self._view, self._channel, self._webhooks, self._face = view, view.channel, webhooks, face
        self._gate, self._may_post = view.gate.under(may_post), may_post
        self._shown = allowed_name(view.gate.clean(face.name))

    async def send(self, text: str | None, extras: Extras, nonce: str) -> discord.Message:
        del nonce
        newest = self._view.transcript.newest
        try:
            return await self._send(text, extras)
        except UNCERTAIN as error:
            problem = error
        except (*REQUEST_ERRORS, NoWebhook) as error:
            raise self._cannot(error, text) from error
        if (found := await self._find(text, newest, problem)) is not None:
            return found
        try:
            return await self._send(text, extras)
        except (*REQUEST_ERRORS, TimeoutError, NoWebhook) as error:
            if extras.attach is None or not isinstance(error, UNCERTAIN):
                raise self._cannot(error, text) from error
            problem = error
        # Some servers and proxies cut an upload that they refuse, without a 413.
        if (found := await self._find(text, newest, problem)) is not None:
            return found
        noted = with_file_note(self._gate.clean(text) if text is not None else None, extras.attach, problem)
        try:
            return await self._send(noted, replace(extras, attach=None))
        except (*REQUEST_ERRORS, TimeoutError, NoWebhook) as error:
            raise self._cannot(error, text) from error

    async def _find(self, text: str | None, after: int, problem: BaseException) -> discord.Message | None:
        """Return the post that may have been made although its request failed."""
        log.info("webhook post to channel %d is uncertain (%s), it is looked for", self._channel.id, kind(problem))
        await asyncio.sleep(RETRY_PAUSE)
        return EarlierPosts(await self.since(after)).take(text, "")

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        """Raises MessageGone for a message that was deleted."""
        try:
            return await self._webhooks.change(self._gate, self._channel, message.id, text, extras)
        except discord.NotFound as error:
            raise MessageGone from error
        except (*REQUEST_ERRORS, NoWebhook) as error:
            raise self._cannot(error, text) from error

    async def remove(self, message: discord.Message) -> None:
        try:
            await self._webhooks.delete(self._gate, self._channel, message.id)
        except discord.NotFound:
            log.debug("message %d was deleted already", message.id)
        except (*REQUEST_ERRORS, NoWebhook) as error:
            raise self._cannot(error, None) from error

    async def since(self, after: int) -> Sequence[discord.Message]:
        """The persona's own posts behind a message, as Discord has them now."""
        try:
            async with asyncio.timeout(PAGE_TIMEOUT):
                ours = await self._webhooks.ours(self._gate, self._channel)
                page = await self._gate.history(self._channel, PAGE, None)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: an earlier post cannot be looked for: %s", self._channel.id, kind(error))
            raise CannotPost("not_ours" if not self._may_post() else "discord_failed") from error
        own = [one for one in page if one.id > after and one.webhook_id in ours and one.author.name == self._shown]
        for message in own:
            await self._webhooks.note(self._channel.id, message.id, self._face.agent)
        return own

    async def _send(self, text: str | None, extras: Extras) -> discord.Message:
        if not self._may_post():
            raise CannotPost("not_ours")
        async with asyncio.timeout(TIMEOUT):
            message = await self._webhooks.post(self._gate, self._channel, text, self._face, extras)
        # Own posts enter the transcript from REST's answer: the next turn may come before the gateway's event.
        for entry in to_entries((message,), self._view.transcripts.directory):
            self._view.transcript.add(entry)
        return message

    def _cannot(self, error: Exception, text: str | None) -> CannotPost:
        if isinstance(error, NoWebhook):
            return CannotPost("not_permitted")
        return cannot_post(error, self._channel.id, text)
