"""What one bot does to the messages of one channel, with what each of it means for the transcript."""

from __future__ import annotations

import logging
from collections.abc import Callable

import discord

from agent_chat.outlet import CannotPost
from agent_chat.transcript import Transcript, Transcripts
from agent_discord.objects.channels import Channel
from agent_discord.objects.messages import to_entries
from agent_discord.posting.multipart import Extras, MessageGone
from agent_discord.rest.gate import REQUEST_ERRORS, Gate, Silenced, kind
from agent_llm.types import Usage

MOST_SAID = 300  # characters of an error's text


log = logging.getLogger(__name__)


class MessageWriter:
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
        self._speaking = gate.under(may_post)
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
            message = await self._speaking.send(
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
            changed = await self._speaking.edit(
                message, text, attach=extras.attach, embed=extras.embed, answers=extras.ping is not None
            )
        except discord.NotFound as error:
            self._transcript.delete(message.id)
            raise MessageGone from error
        except REQUEST_ERRORS as error:
            raise self._cannot(error, text) from error
        for entry in to_entries((changed,), self._transcripts.directory):
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
        for entry in to_entries((message,), self._transcripts.directory):
            self._transcript.add(entry)

    def _cannot(self, error: Exception, text: str | None = None) -> CannotPost:
        """What was to be said is told by its length alone."""
        if isinstance(error, Silenced):
            return CannotPost("not_ours")
        length = f" ({len(text):,} characters)" if text else ""
        log.warning("post to channel %d failed%s: %s", self._channel.id, length, kind(error))
        if isinstance(error, discord.Forbidden):
            return CannotPost("not_permitted")
        if isinstance(error, discord.NotFound):
            return CannotPost("unknown_channel")
        return CannotPost("discord_failed")


def in_full(error: BaseException) -> str:
    """The same with what Discord says of it, in one line: for requests that hold nothing of anybody's."""
    said = " ".join(error.text.split())[:MOST_SAID] if isinstance(error, discord.HTTPException) else ""
    return f"{kind(error)}: {said}" if said else kind(error)


def cost_embed(usage: Usage, day_total_usd: float, colour: int) -> discord.Embed:
    """One line: model, cost, tokens in and out (of them cached), the agent's total of the day."""
    tokens = f"{usage.input_tokens:,} in"
    if usage.cached_tokens:
        tokens += f" ({usage.cached_tokens:,} cached)"
    tokens += f" / {usage.output_tokens:,} out"
    extras = [f"{usage.searches} searches"] if usage.searches else []
    extras += [f"{usage.pictures} pictures"] if usage.pictures else []
    parts = [usage.model, f"${usage.cost_usd:.4f}", tokens, *extras, f"today ${day_total_usd:.2f}"]
    return discord.Embed(colour=colour).set_footer(text=" · ".join(part for part in parts if part))
