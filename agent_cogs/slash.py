"""Slash command cog: interactions to action requests, replies back.

Forms, menus and files as py-cord's objects, and what came back of them as plain values.

py-cord keeps none of them (`store=False`): what a person fills in or chooses reaches agent_cogs/slash.py as an
interaction, in whichever process the bot runs by then.

Receive slash commands as plain values and send back the handler's reply, visible to that person alone.

Discord wants a first response within three seconds, so a slow reply is deferred ("thinking…"). An interaction's token
lives for 15 minutes.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import discord

from agent_cogs.slash_definitions import MESSAGE, SLASH, SUB_COMMAND
from agentic.actions.base import (
    CHOICE_CHARACTERS,
    FORM,
    HINT_CHARACTERS,
    LABEL_CHARACTERS,
    MENU,
    MOST_CHOICES,
    TITLE_CHARACTERS,
    Choice,
    CommandInvocation,
    CommandReply,
    Complete,
    Completion,
    Form,
    Handle,
    Menu,
    Response,
    no_choices,
)
from agentic.actions.base import (
    ResponsesField as Field,
)
from agentic.chat.directory import clean_name
from agentic.chat.service import Person
from agentic.services.discord.channels import parent_of
from agentic.services.discord.gate import REQUEST_ERRORS, Gate

log = logging.getLogger(__name__)


Json = Mapping[str, object]


def modal_of(form: Form) -> discord.ui.Modal:
    modal = discord.ui.Modal(title=form.title[:TITLE_CHARACTERS], custom_id=form.id, store=False)
    for each in form.fields:
        modal.add_item(_input(each))
    return modal


def _input(field: Field) -> discord.ui.InputText:
    return discord.ui.InputText(
        style=discord.InputTextStyle.long if field.long else discord.InputTextStyle.short,
        label=field.label[:LABEL_CHARACTERS],
        placeholder=field.hint[:HINT_CHARACTERS] or None,
        custom_id=field.id,
        value=field.text[: field.most] or None,
        required=field.required,
        max_length=field.most,
    )


def view_of(menu: Menu) -> discord.ui.View:
    choices = menu.choices[:MOST_CHOICES]
    select: discord.ui.Select[Any, Any, Any] = discord.ui.Select(
        custom_id=menu.id,
        placeholder=menu.hint[:HINT_CHARACTERS] or None,
        min_values=min(menu.fewest, len(choices)),
        max_values=min(menu.most, len(choices)),
        options=[_option(choice) for choice in choices],
    )
    return discord.ui.View(select, timeout=None, store=False)


def _option(choice: Choice) -> discord.SelectOption:
    return discord.SelectOption(
        label=choice.label[:CHOICE_CHARACTERS],
        value=choice.value,
        description=choice.about[:CHOICE_CHARACTERS] or None,
    )


def option_choice(choice: Choice) -> discord.OptionChoice:
    """A choice for an option that is being typed."""
    return discord.OptionChoice(choice.label[:CHOICE_CHARACTERS], choice.value[:CHOICE_CHARACTERS])


def filled_in(data: Json) -> dict[str, str]:
    """The texts of a submitted form, by the fields' ids."""
    rows = data.get("components")
    fields = [field for row in rows if isinstance(row, dict) for field in _inner(row)] if isinstance(rows, list) else []
    return {str(field.get("custom_id", "")): str(field.get("value") or "") for field in fields}


def _inner(row: Json) -> list[Json]:
    """The inputs of an action row, or of a label."""
    inner = row.get("components") or row.get("component")
    found = inner if isinstance(inner, list) else [inner]
    return [one for one in found if isinstance(one, dict)]


def text_file(name: str, text: str) -> discord.File:
    return discord.File(io.BytesIO(text.encode("utf-8", "replace")), filename=name)


DEFER_AFTER = 1.5  # seconds of Discord's three: the gateway took some, and the response has to travel
LONGEST = 60.0
SUB_GROUP = 2
STRING_SELECT = 3  # a type of component
NOTHING: Mapping[str, str] = MappingProxyType({})
NOT_EDITABLE = "This file contains a secret or a private path, so it cannot be edited here. Edit it on disk."
FAILED = "Something went wrong. The owner finds the details in the log."
TOO_SLOW = "That took too long and was cancelled. Please try again in a while."


class Slash(discord.Cog):
    """Listen for one bot's interactions. `may_act`: whether this process holds the bot's lease; only one may answer."""

    def __init__(
        self,
        bot: discord.Bot,
        gate: Gate,
        answer: Handle,
        may_act: Callable[[], bool],
        complete: Complete = no_choices,
    ) -> None:
        self.bot, self.gate = bot, gate
        self._answer, self._complete, self._may_act = answer, complete, may_act

    @discord.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        command = read_interaction(interaction)
        if command is None or not self._may_act():
            return
        try:
            if (typed := read_completion(interaction, command)) is not None:
                await self._offer(interaction, typed)
            else:
                await self._serve(interaction, command)
        except REQUEST_ERRORS as error:
            log.warning("/%s: reply not sent: %s", command.name, type(error).__name__)

    async def _offer(self, interaction: discord.Interaction, typed: Completion) -> None:
        """Show choices for what is being typed; none where they cannot be read in time."""
        try:
            async with asyncio.timeout(DEFER_AFTER):
                choices = await self._complete(typed)
        except Exception as error:
            log.warning("/%s: no choices for %s: %s", typed.command.name, typed.option, type(error).__name__)
            choices = ()
        await self.gate.offer(interaction, [option_choice(choice) for choice in choices[:MOST_CHOICES]])

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
        if isinstance(response, Menu):
            await self.gate.answer(interaction, response.text, view=view_of(response))
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
    """The command of an interaction, also one that is being typed; None for other kinds, such as a button."""
    data: Mapping[str, Any] = interaction.data or {}
    if interaction.channel_id is None or interaction.user is None:
        return None
    if interaction.type is discord.InteractionType.modal_submit:
        return _came_back(interaction, FORM, data, filled_in(data))
    if interaction.type is discord.InteractionType.component and data.get("component_type") == STRING_SELECT:
        return _came_back(interaction, MENU, data, chosen=tuple(map(str, data.get("values") or ())))
    if interaction.type not in (discord.InteractionType.application_command, discord.InteractionType.auto_complete):
        return None
    if data.get("type", SLASH) not in (SLASH, MESSAGE):
        return None
    path, values = str(data["name"]), dict[str, str | int]()
    if data.get("type") == MESSAGE:
        values = {"message": str(data["target_id"])}
    else:
        path, options = _options(data)
        values = {option["name"]: option["value"] for option in options}
    return _invocation(interaction, path, values)


def read_completion(interaction: discord.Interaction, command: CommandInvocation) -> Completion | None:
    """The option of a command that is being typed; None for another interaction."""
    if interaction.type is not discord.InteractionType.auto_complete:
        return None
    _, options = _options(interaction.data or {})
    focused = next((option for option in options if option.get("focused")), {"name": "", "value": ""})
    return Completion(command=command, option=str(focused["name"]), typed=str(focused["value"]))


def _options(data: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """The command with its sub-commands, "bots mute", and the options given."""
    path, options = str(data["name"]), data.get("options") or ()
    while options and options[0]["type"] in (SUB_COMMAND, SUB_GROUP):
        path, options = f"{path} {options[0]['name']}", options[0].get("options") or ()
    return path, options


def _came_back(
    interaction: discord.Interaction,
    kind: str,
    data: Mapping[str, Any],
    texts: Mapping[str, str] = NOTHING,
    chosen: tuple[str, ...] = (),
) -> CommandInvocation:
    """A form or a menu that we showed."""
    shown = str(data.get("custom_id", ""))
    return _invocation(interaction, f"{kind} {shown.partition(':')[0]}", {**texts, "id": shown}, chosen)


def _invocation(
    interaction: discord.Interaction, name: str, values: Mapping[str, str | int], chosen: tuple[str, ...] = ()
) -> CommandInvocation:
    assert interaction.channel_id is not None
    return CommandInvocation(
        id=interaction.id,
        name=name,
        who=_who(interaction),
        channel_id=interaction.channel_id,
        guild_id=interaction.guild_id,
        parent_id=parent_of(interaction.channel),
        values=values,
        chosen=chosen,
    )


def _who(interaction: discord.Interaction) -> Person:
    """The person with their permissions in the channel, which Discord sends with each interaction."""
    user = interaction.user
    assert user is not None
    if not isinstance(user, discord.Member):
        return Person(user.id, name=clean_name(user.display_name))
    may = interaction.permissions
    return Person(
        user.id,
        roles=frozenset(role.id for role in user.roles),
        manages_messages=may.manage_messages or may.administrator,
        manages_guild=may.manage_guild or may.administrator,
        name=clean_name(user.display_name),
    )
