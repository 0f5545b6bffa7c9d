"""Receive slash commands as plain values and send back the handler's reply, visible to that person alone.

Discord wants a first response within three seconds, so a slow reply is deferred ("thinking…"). An interaction's token
lives for 15 minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import discord

from agent_chat.incoming import Person
from agent_discord.objects.channels import parent_of
from agent_discord.rest.errors import REQUEST_ERRORS
from agent_discord.rest.gate import Gate
from agent_discord.slash.definitions import FORM, MESSAGE, SLASH, SUB_COMMAND
from agent_discord.slash.responses import CommandReply, Form, Response, filled_in, modal_of, text_file

DEFER_AFTER = 1.5  # seconds of Discord's three: the gateway took some, and the response has to travel
LONGEST = 60.0
SUB_GROUP = 2
NOT_EDITABLE = "This file contains a secret or a private path, so it cannot be edited here. Edit it on disk."
FAILED = "Something went wrong. The owner finds the details in the log."
TOO_SLOW = "That took too long and was cancelled. Please try again in a while."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInvocation:
    """A command as a person used it: "bots mute" with {"bot": "grok", "minutes": 5}. `id` is the interaction's.

    Ids in `values` are texts, as Discord sends them; a command from a message's menu has the message's id as `message`.
    """

    id: int
    name: str
    who: Person
    channel_id: int
    guild_id: int | None
    parent_id: int | None = None
    values: Mapping[str, str | int] = field(default_factory=dict)


Handle = Callable[[CommandInvocation], Awaitable[Response]]


class Slash(discord.Cog):
    """Listen for one bot's interactions. `may_act`: whether this process holds the bot's lease; only one may answer."""

    def __init__(self, bot: discord.Bot, gate: Gate, answer: Handle, may_act: Callable[[], bool]) -> None:
        self.bot, self.gate = bot, gate
        self._answer, self._may_act = answer, may_act

    @discord.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        command = read_interaction(interaction)
        if command is None or not self._may_act():
            return
        try:
            await self._serve(interaction, command)
        except REQUEST_ERRORS as error:
            log.warning("/%s: reply not sent: %s", command.name, type(error).__name__)

    async def _serve(self, interaction: discord.Interaction, command: CommandInvocation) -> None:
        answering = asyncio.create_task(self._text(command), name=f"/{command.name}")
        try:
            await asyncio.wait((answering,), timeout=DEFER_AFTER)
            if not answering.done():
                await self.gate.defer(interaction)
            await self._give(interaction, command, await answering)
        finally:
            answering.cancel()

    async def _give(self, interaction: discord.Interaction, command: CommandInvocation, response: Response) -> None:
        if isinstance(response, Form):
            await self._show(interaction, response)
            return
        reply = response if isinstance(response, CommandReply) else CommandReply(response)
        if reply.public and interaction.response.is_done():
            reply = CommandReply(TOO_SLOW)  # the deferral was visible to one person alone
        attach = partial(text_file, reply.file[0], self.gate.clean(reply.file[1])) if reply.file else None
        await self.gate.answer(interaction, reply.text, public=reply.public, attach=attach)

    async def _show(self, interaction: discord.Interaction, form: Form) -> None:
        """Show a form, unless its text would have to be redacted: the form would come back redacted."""
        if self.gate.clean(form.text) != form.text:
            await self.gate.answer(interaction, NOT_EDITABLE)
        elif interaction.response.is_done():
            await self.gate.answer(interaction, TOO_SLOW)
        else:
            await self.gate.show_form(interaction, modal_of(form))

    async def _text(self, command: CommandInvocation) -> Response:
        try:
            async with asyncio.timeout(LONGEST):
                return await self._answer(command)
        except TimeoutError:
            log.warning("/%s: cancelled after %.0f s", command.name, LONGEST)
            return TOO_SLOW
        except Exception:
            # The outermost edge of a command: the person gets a line, the log the traceback.
            log.exception("/%s failed", command.name)
            return FAILED


def read_interaction(interaction: discord.Interaction) -> CommandInvocation | None:
    """The command of an interaction; None for other kinds (a button, a completion). A submitted form counts as one."""
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
    return _invocation(interaction, path, values)


def _returned_form(interaction: discord.Interaction, data: Mapping[str, Any]) -> CommandInvocation | None:
    if interaction.channel_id is None or interaction.user is None:
        return None
    return _invocation(interaction, FORM, {"id": str(data.get("custom_id", "")), "text": filled_in(data)})


def _invocation(interaction: discord.Interaction, name: str, values: Mapping[str, str | int]) -> CommandInvocation:
    assert interaction.channel_id is not None
    return CommandInvocation(
        id=interaction.id,
        name=name,
        who=_who(interaction),
        channel_id=interaction.channel_id,
        guild_id=interaction.guild_id,
        parent_id=parent_of(interaction.channel),
        values=values,
    )


def _who(interaction: discord.Interaction) -> Person:
    """The person with their permissions in the channel, which Discord sends with each interaction."""
    user = interaction.user
    assert user is not None
    if not isinstance(user, discord.Member):
        return Person(user.id)
    roles = frozenset(role.id for role in user.roles)
    may = interaction.permissions
    return Person(user.id, roles, may.manage_messages or may.administrator, may.manage_guild or may.administrator)
