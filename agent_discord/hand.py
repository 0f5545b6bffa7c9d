"""What one bot does to the messages of one channel, with what each of it means for the transcript."""

from __future__ import annotations

import logging
from collections.abc import Callable

import discord

from agent_discord.channels import Channel
from agent_discord.convert import to_entry
from agent_discord.gate import REQUEST_ERRORS, Gate
from agent_discord.parts import CannotPost, Extras, MessageGone
from agent_discord.transcript import Transcript, Transcripts

log = logging.getLogger(__name__)


class ChannelHand:
    """Before each request it is asked whether this process still holds the agent (`may_post`), and before each new
    message why the bot may not write there (`refusal`): rights and threads change while a bot thinks. `may_remove` is
    asked before a deletion instead: what was begun is taken back also where a person wants silence now."""

    def __init__(
        self,
        channel: Channel,
        gate: Gate,
        transcripts: Transcripts,
        *,
        may_post: Callable[[], bool],
        refusal: Callable[[], str | None],
        may_remove: Callable[[], bool] | None = None,
    ) -> None:
        self._channel, self._gate, self._transcripts = channel, gate, transcripts
        self._may_post, self._refusal = may_post, refusal
        self._may_remove = may_remove or may_post

    @property
    def _transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    async def send(
        self, text: str | None, extras: Extras, nonce: str, reply_to: discord.MessageReference | None = None
    ) -> discord.Message:
        self._check()
        if (refusal := self._refusal()) is not None:
            raise CannotPost(refusal)
        try:
            message = await self._gate.send(
                self._channel,
                text,
                nonce=nonce,
                ping=extras.ping,
                attach=extras.attach,
                embed=extras.embed,
                reply_to=reply_to,
            )
        except REQUEST_ERRORS as error:
            raise self._cannot(error, text) from error
        self._record(message)
        return message

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        self._check()
        try:
            changed = await self._gate.edit(
                message, text, attach=extras.attach, embed=extras.embed, answers=extras.ping is not None
            )
        except discord.NotFound as error:
            self._transcript.delete(message.id)
            raise MessageGone from error
        except REQUEST_ERRORS as error:
            raise self._cannot(error, text) from error
        entry = to_entry(changed, self._transcripts.directory)
        if entry is not None:
            self._transcript.revise(entry)
        return changed

    async def remove(self, message: discord.Message | discord.PartialMessage) -> None:
        """A message that is gone already is none to be removed."""
        if not self._may_remove():
            raise CannotPost("not_ours")
        try:
            await self._gate.delete(message)
        except discord.NotFound:
            log.debug("message %d was gone already", message.id)
        except REQUEST_ERRORS as error:
            raise self._cannot(error) from error
        self._transcript.delete(message.id)

    def _check(self) -> None:
        if not self._may_post():
            raise CannotPost("not_ours")

    def _record(self, message: discord.Message) -> None:
        """Own posts enter the transcript from REST's answer: the next turn may come before the gateway's event."""
        entry = to_entry(message, self._transcripts.directory)
        if entry is not None:
            self._transcript.add(entry)

    def _cannot(self, error: Exception, text: str | None = None) -> CannotPost:
        """What was to be said is told by its length alone."""
        length = f" ({len(text):,} characters)" if text else ""
        log.warning("post to channel %d failed%s: %s", self._channel.id, length, kind(error))
        if isinstance(error, discord.Forbidden):
            return CannotPost("not_permitted")
        if isinstance(error, discord.NotFound):
            return CannotPost("unknown_channel")
        return CannotPost("discord_failed")


def kind(error: BaseException) -> str:
    """An error as a log may tell it."""
    if isinstance(error, discord.HTTPException):
        return f"HTTP {error.status}, code {error.code}"
    return type(error).__name__
