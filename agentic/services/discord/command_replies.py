"""Replies to commands that people write in a channel (`m context`, a pinned `.config`): a line, a file, a deletion."""

from __future__ import annotations

import io
import logging
from functools import partial

import discord

from agentic.chat.outlet import CannotPost
from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.channels import Channel, parent_in, permissions_in
from agentic.services.discord.gate import Gate
from agentic.services.discord.message_writer import MessageWriter
from agentic.services.discord.multipart import NO_EXTRAS, Extras
from agentic.services.discord.outbound import nonce
from agentic.services.discord.webhooks import fitting

MAX_FILE_BYTES = 8_000_000  # below Discord's limit for a guild without boosts

log = logging.getLogger(__name__)


class DiscordCommandReplies:
    """Each text begins with a period, so that no bot takes it for part of the conversation."""

    def __init__(self, channel: Channel, gate: Gate, writer: MessageWriter, background: BackgroundTasks) -> None:
        self._channel, self._gate, self._writer, self._background = channel, gate, writer, background

    def discard(self, message_id: int) -> bool:
        """Begins to delete a command, and returns whether the bot has the permission for it."""
        permissions = permissions_in(self._channel)
        if not permissions.manage_messages:
            log.info("channel %d: a command stays, the bot lacks Manage Messages", self._channel.id)
            return False
        self._background.start(self._discard(message_id), f"discard {message_id}")
        return True

    async def _discard(self, message_id: int) -> None:
        try:
            await self._writer.remove(self._channel.get_partial_message(message_id))
        except CannotPost as error:
            log.info("channel %d: a command could not be deleted: %s", self._channel.id, error.reason)

    async def reply(self, message_id: int, text: str, occasion: str, *, in_parent: bool = False) -> bool:
        """Posts one line in reply to a person's message, without a ping; False where it could not be posted.
        `in_parent`: the message is in the channel of this thread.

        For some minutes Discord takes a second reply on the same `occasion` for the first one. A caller that must not
        repeat itself remembers it for longer (agentic.state.once).
        """
        channel = (parent_in(self._channel) if in_parent else None) or self._channel
        to = discord.MessageReference(message_id=message_id, channel_id=channel.id, fail_if_not_exists=False)
        return await self._say(self._writer.to(channel), text, occasion, reply_to=to)

    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool:
        """Posts a text as a file, without secrets; False where it could not be posted, and a line says so."""
        if not permissions_in(self._channel).attach_files:
            await self._say(self._writer, f"{note}: no file, the bot lacks Attach Files here", occasion)
            return False
        data = self._gate.clean(content).encode("utf-8", "replace")
        if len(data) > MAX_FILE_BYTES:
            data = data[:MAX_FILE_BYTES].decode("utf-8", "ignore").encode() + b"\n(cut here: too long for Discord)\n"
        return await self._say(self._writer, note, occasion, Extras(attach=partial(_file, filename, data)))

    async def _say(
        self,
        writer: MessageWriter,
        text: str,
        occasion: str,
        extras: Extras = NO_EXTRAS,
        reply_to: discord.MessageReference | None = None,
    ) -> bool:
        line = fitting(f". {self._gate.clean(text).lstrip('. ')}")
        try:
            await writer.send(line, extras, nonce(occasion, 0), reply_to)
        except CannotPost as error:
            log.info("channel %d: a reply to a command could not be posted: %s", self._channel.id, error.reason)
            return False
        return True


def _file(filename: str, data: bytes) -> discord.File:
    return discord.File(io.BytesIO(data), filename=filename)
