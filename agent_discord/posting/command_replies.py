"""What a bot does in a channel beside its turns: it takes commands away, answers a wrong one, hands out a file."""

from __future__ import annotations

import io
import logging
from functools import partial

import discord

from agent_chat.outlet import CannotPost
from agent_discord.objects.channels import Channel, permissions_in
from agent_discord.posting.message_writer import MessageWriter
from agent_discord.posting.multipart import NO_EXTRAS, Extras
from agent_discord.posting.webhooks import fitting
from agent_discord.rest.gate import Gate, nonce
from agent_process.tasks import BackgroundTasks

MAX_FILE_BYTES = 8_000_000  # below Discord's limit for a guild without boosts

log = logging.getLogger(__name__)


class DiscordCommandReplies:
    """One bot's in one channel. What it says begins with a period, so that no bot reads it as talk."""

    def __init__(self, channel: Channel, gate: Gate, hand: MessageWriter, background: BackgroundTasks) -> None:
        self._channel, self._gate, self._hand, self._background = channel, gate, hand, background

    def discard(self, message_id: int) -> bool:
        """Deletes a command that somebody wrote, if that is allowed; else that is logged. Nobody waits for it. Whether
        it is being deleted."""
        permissions = permissions_in(self._channel)
        if not permissions.manage_messages:
            log.info("channel %d: a command stays, the bot lacks Manage Messages", self._channel.id)
            return False
        self._background.start(self._discard(message_id), f"discard {message_id}")
        return True

    async def _discard(self, message_id: int) -> None:
        try:
            await self._hand.remove(self._channel.get_partial_message(message_id))
        except CannotPost as error:
            log.info("channel %d: a command could not be deleted: %s", self._channel.id, error.reason)

    async def reply(self, message_id: int, text: str, occasion: str) -> bool:
        """One line to a person's message, without a ping; False where it could not be posted.

        The same `occasion` again is the same message to Discord, for some minutes: who must not say it twice remembers
        it for longer (agent_protocol.state.once).
        """
        to = discord.MessageReference(message_id=message_id, channel_id=self._channel.id, fail_if_not_exists=False)
        return await self._say(text, occasion, reply_to=to)

    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool:
        """A text as a file, without what may not leave; False where it could not be posted, which a line says."""
        if not permissions_in(self._channel).attach_files:
            await self._say(f"{note}: no file, the bot lacks Attach Files here", occasion)
            return False
        data = self._gate.clean(content).encode("utf-8", "replace")
        if len(data) > MAX_FILE_BYTES:
            data = data[:MAX_FILE_BYTES].decode("utf-8", "ignore").encode() + b"\n(cut here: too long for Discord)\n"
        return await self._say(note, occasion, Extras(attach=partial(_file, filename, data)))

    async def _say(
        self,
        text: str,
        occasion: str,
        extras: Extras = NO_EXTRAS,
        reply_to: discord.MessageReference | None = None,
    ) -> bool:
        line = fitting(f". {self._gate.clean(text).lstrip('. ')}")
        try:
            await self._hand.send(line, extras, nonce(occasion, 0), reply_to)
        except CannotPost as error:
            log.info("channel %d: a line could not be posted: %s", self._channel.id, error.reason)
            return False
        return True


def _file(filename: str, data: bytes) -> discord.File:
    return discord.File(io.BytesIO(data), filename=filename)
