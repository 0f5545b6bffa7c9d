"""Sends, changes and deletes the messages of one channel for one bot, and keeps its transcript in step."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

import discord

from agentic.chat.outlet import CannotPost
from agentic.chat.transcript import Transcript, Transcripts
from agentic.services.discord.channels import Channel, refusal_in
from agentic.services.discord.errors import REQUEST_ERRORS, Silenced, kind
from agentic.services.discord.gate import Gate
from agentic.services.discord.messages import to_entries
from agentic.services.discord.multipart import Extras, MessageGone

log = logging.getLogger(__name__)


class MessageWriter:
    """Every method raises CannotPost where it fails.

    `may_post` is asked before each request, since the lease may go to another process and a person may stop the
    channel while a bot thinks; permissions are checked before each new message. `may_remove` is asked before a deletion
    instead: what was begun is deleted in a stopped channel too. `our_lock`: a lock of the thread is our own.
    """

    def __init__(
        self,
        channel: Channel,
        gate: Gate,
        transcripts: Transcripts,
        *,
        may_post: Callable[[], bool],
        may_remove: Callable[[], bool],
    ) -> None:
        self._channel, self._gate, self._transcripts = channel, gate, transcripts
        self._posting_gate = gate.under(may_post)
        self.our_lock = False
        self._may_post, self._may_remove = may_post, may_remove

    def to(self, channel: Channel) -> MessageWriter:
        """A writer for another channel under the same conditions."""
        writer = copy.copy(self)
        writer._channel = channel
        return writer

    @property
    def _transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    def refusal(self) -> str | None:
        """Why the bot may not write there; None when it may."""
        return refusal_in(self._channel, our_lock=self.our_lock)

    async def send(
        self, text: str | None, extras: Extras, nonce: str, reply_to: discord.MessageReference | None = None
    ) -> discord.Message:
        """`reply_to` is of another channel's message, `extras` name one of this channel."""
        self._check()
        if (refusal := self.refusal()) is not None:
            raise CannotPost(refusal)
        try:
            message = await self._posting_gate.send(
                self._channel,
                text,
                nonce=nonce,
                ping=extras.ping,
                attach=extras.attach,
                embed=extras.embed,
                reply_to=reply_to or self._reference(extras.reply_to),
            )
        except REQUEST_ERRORS as error:
            raise cannot_post(error, self._channel.id, text) from error
        # Own posts enter the transcript from REST's answer: the next turn may come before the gateway's event.
        for entry in to_entries((message,), self._transcripts.directory):
            self._transcript.add(entry)
        return message

    def _reference(self, message_id: int | None) -> discord.MessageReference | None:
        if message_id is None:
            return None
        return discord.MessageReference(message_id=message_id, channel_id=self._channel.id, fail_if_not_exists=False)

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        """Raises MessageGone for a message that was deleted."""
        self._check()
        try:
            changed = await self._posting_gate.edit(
                message, text, attach=extras.attach, embed=extras.embed, answers=extras.ping is not None
            )
        except discord.NotFound as error:
            self._transcript.delete(message.id)
            raise MessageGone from error
        except REQUEST_ERRORS as error:
            raise cannot_post(error, self._channel.id, text) from error
        for entry in to_entries((changed,), self._transcripts.directory):
            self._transcript.revise(entry)
        return changed

    async def remove(self, message: discord.Message | discord.PartialMessage) -> None:
        """Succeeds for a message that was deleted already."""
        if not self._may_remove():
            raise CannotPost("not_ours")
        try:
            await self._gate.delete(message)
        except discord.NotFound:
            log.debug("message %d was deleted already", message.id)
        except REQUEST_ERRORS as error:
            raise cannot_post(error, self._channel.id) from error
        self._transcript.delete(message.id)

    def _check(self) -> None:
        if not self._may_post():
            raise CannotPost("not_ours")


def cannot_post(error: Exception, channel_id: int, text: str | None = None) -> CannotPost:
    """A failed request as the reason for a result; it is logged, of its text the length alone."""
    if isinstance(error, Silenced):
        return CannotPost("not_ours")
    length = f" ({len(text):,} characters)" if text else ""
    log.warning("post to channel %d failed%s: %s", channel_id, length, kind(error))
    if isinstance(error, discord.Forbidden):
        return CannotPost("not_permitted")
    if isinstance(error, discord.NotFound):
        return CannotPost("unknown_channel")
    return CannotPost("discord_failed")
