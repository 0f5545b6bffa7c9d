"""The bots' commands, used by the person at the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_local.discord.interactions import EPHEMERAL
from agent_local.discord.server import DiscordStandIn
from agent_local.discord.world.world import Attachment
from agent_local.own_personas import to_edit
from agent_local.terminal.bot_commands import Use


class CommandUse:
    """Uses commands as `person`, in a channel, and returns the answer."""

    def __init__(self, server: DiscordStandIn, person: str, personas: Path) -> None:
        self._server, self._person, self._personas = server, person, personas

    async def __call__(self, channel_id: int, use: Use) -> str:
        """Raises LookupError and ValueError."""
        try:
            return await self._answer(channel_id, use)
        except TimeoutError:
            raise LookupError("no bot answered; try again in a moment") from None

    async def _answer(self, channel_id: int, use: Use) -> str:
        server, guild_id = self._server, self._server.world.guild.id
        bots = server.world.apps.values()
        await server.wait_for(lambda: any(app.commands.get(guild_id) for app in bots))  # soon after the start
        bot = next(app for app in bots if app.commands.get(guild_id))
        used = await server.interact(self._person, channel_id, bot.key, use.command, dict(use.values))
        await server.wait_for(lambda: used.answers or used.form)
        if not used.answers:
            return f"in Discord a form opens here; instead, edit {self._file(use.values)}"
        return answer_text(used.answers[0], server.backend.attachments)

    def _file(self, values: Mapping[str, str | int]) -> Path:
        """The persona file that a command names."""
        return to_edit(self._personas / str(values.get("agent", "")) / str(values.get("file", "")))


def answer_text(answer: Mapping[str, Any], attachments: Mapping[int, Attachment]) -> str:
    """The text of an answer to one person, with that of its files; "" for one that everybody sees in the channel."""
    if not answer.get("flags", 0) & EPHEMERAL:
        return ""
    files = [attachments[int(one["id"])].content for one in answer.get("attachments") or ()]
    return "\n".join([str(answer["content"]), *(content.decode(errors="replace") for content in files)])
