"""Commands that people use, as plain values in, and a text that only they see, out.

Discord waits three seconds for a first sign. An answer that is not there soon is announced ("thinking…") and comes
later; an interaction's token lives for a quarter of an hour. What a command does is not known here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import discord

from agent_chat.incoming import Who
from agent_discord.objects.channels import parent_of
from agent_discord.rest.errors import REQUEST_ERRORS
from agent_discord.rest.gate import Gate
from agent_discord.slash.definitions import FORM, MESSAGE, SLASH, SUB_COMMAND
from agent_discord.slash.responses import CommandReply, Form, Response, filled_in, modal_of, text_file

DEFER_AFTER = 1.5  # seconds; the gateway has taken some of the three, and the answer travels too
LONGEST = 60.0
SUB_GROUP = 2
NOT_TO_LEAVE = "There is something in it that may not leave the machine it is on, so please change it there."
FAILED = "Something went wrong on my side, and nothing more can be said here. Whoever runs me finds it in the log."
TOO_SLOW = "That took too long, and I gave it up. Please try again in a while."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInvocation:
    """A command as a person used it: "bots mute" with {"bot": "grok", "minutes": 5}; ids of people and channels are
    texts, as Discord sends them. A command of a message's menu has the message's id as `message`. `id`: of this use."""

    id: int
    command: str
    who: Who
    channel_id: int
    guild_id: int | None
    parent_id: int | None = None
    values: Mapping[str, str | int] = field(default_factory=dict)


Answer = Callable[[CommandInvocation], Awaitable[Response]]


class Slash(discord.Cog):
    """One bot's. `may_act`: whether this process holds the bot's lease, so that of two one answers."""

    def __init__(self, bot: discord.Bot, gate: Gate, answer: Answer, may_act: Callable[[], bool]) -> None:
        self.bot, self.gate = bot, gate
        self._answer, self._may_act = answer, may_act

    @discord.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        asked = read_interaction(interaction)
        if asked is None or not self._may_act():
            return
        try:
            await self._serve(interaction, asked)
        except REQUEST_ERRORS as error:
            log.warning("the answer to /%s could not be given: %s", asked.command, type(error).__name__)

    async def _serve(self, interaction: discord.Interaction, asked: CommandInvocation) -> None:
        answering = asyncio.create_task(self._text(asked), name=f"/{asked.command}")
        try:
            await asyncio.wait((answering,), timeout=DEFER_AFTER)
            if not answering.done():
                await self.gate.defer(interaction)
            await self._give(interaction, asked, await answering)
        finally:
            answering.cancel()

    async def _give(self, interaction: discord.Interaction, asked: CommandInvocation, response: Response) -> None:
        if isinstance(response, Form):
            await self._show(interaction, response)
            return
        told = response if isinstance(response, CommandReply) else CommandReply(response)
        if told.public and interaction.response.is_done():
            told = CommandReply(TOO_SLOW)  # it was announced to one person alone
        attach = partial(text_file, told.file[0], self.gate.clean(told.file[1])) if told.file else None
        await self.gate.answer(interaction, told.text, public=told.public, attach=attach)

    async def _show(self, interaction: discord.Interaction, form: Form) -> None:
        """A form shows a text as it is, since it comes back as it is: what may not leave is not shown at all."""
        if self.gate.clean(form.text) != form.text:
            await self.gate.answer(interaction, NOT_TO_LEAVE)
        elif interaction.response.is_done():
            await self.gate.answer(interaction, TOO_SLOW)
        else:
            await self.gate.show_form(interaction, modal_of(form))

    async def _text(self, asked: CommandInvocation) -> Response:
        try:
            async with asyncio.timeout(LONGEST):
                return await self._answer(asked)
        except TimeoutError:
            log.warning("/%s took longer than %.0f s", asked.command, LONGEST)
            return TOO_SLOW
        except Exception:
            # The outermost edge of a command: the person is owed a line, the log the rest.
            log.exception("/%s failed", asked.command)
            return FAILED


def read_interaction(interaction: discord.Interaction) -> CommandInvocation | None:
    """None for what is no command: a button, a completion. A form that comes back is one, with its id and text."""
    data: Mapping[str, Any] = interaction.data or {}
    if interaction.type is discord.InteractionType.modal_submit:
        return _returned_form(interaction, data)
    if interaction.type is not discord.InteractionType.application_command or interaction.channel_id is None:
        return None
    if interaction.user is None or data.get("type", SLASH) not in (SLASH, MESSAGE):
        return None
    path, values = str(data["name"]), dict[str, str | int]()
    if data.get("type") == MESSAGE:
        values = {"message": str(data["target_id"])}
    else:
        options = data.get("options") or ()
        while options and options[0]["type"] in (SUB_COMMAND, SUB_GROUP):
            path, options = f"{path} {options[0]['name']}", options[0].get("options") or ()
        values = {option["name"]: option["value"] for option in options}
    return _asked(interaction, path, values)


def _returned_form(interaction: discord.Interaction, data: Mapping[str, Any]) -> CommandInvocation | None:
    if interaction.channel_id is None or interaction.user is None:
        return None
    return _asked(interaction, FORM, {"id": str(data.get("custom_id", "")), "text": filled_in(data)})


def _asked(interaction: discord.Interaction, command: str, values: Mapping[str, str | int]) -> CommandInvocation:
    assert interaction.channel_id is not None
    return CommandInvocation(
        id=interaction.id,
        command=command,
        who=_who(interaction),
        channel_id=interaction.channel_id,
        guild_id=interaction.guild_id,
        parent_id=parent_of(interaction.channel),
        values=values,
    )


def _who(interaction: discord.Interaction) -> Who:
    """Discord sends the person's permissions along, in the channel, with everything counted in."""
    user = interaction.user
    assert user is not None
    if not isinstance(user, discord.Member):
        return Who(user.id)
    roles = frozenset(role.id for role in user.roles)
    may = interaction.permissions
    return Who(user.id, roles, may.manage_messages or may.administrator, may.manage_guild or may.administrator)
