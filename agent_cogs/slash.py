"""The slash commands of one bot: interactions become requests, actions answer them, and replies go back.

Commands work in the channels where the bots speak. Discord shows every command to everyone, so rights are checked at
each use, and a person without the right gets a line that names it.

Discord requires a first response within three seconds, so a slow reply is deferred ("thinking…"). An interaction's
token is valid for 15 minutes. py-cord stores no forms and menus (`store=False`): a person's input comes back as an
interaction, to whichever process runs the bot by then.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import discord

from agent_cogs.slash_definitions import MESSAGE, SLASH, SUB_COMMAND
from agentic.actions.base import (
    CHOICE_CHARACTERS,
    FORM,
    HINT_CHARACTERS,
    LABEL_CHARACTERS,
    MAX_CHOICES,
    MENU,
    TITLE_CHARACTERS,
    ActionRequest,
    File,
    Form,
    Menu,
    Outcome,
    refused,
)
from agentic.actions.registry import Actions
from agentic.actions.texts import Style
from agentic.chat.directory import clean_name
from agentic.chat.service import Person
from agentic.services.discord.channels import parent_of
from agentic.services.discord.gate import REQUEST_ERRORS, Gate
from agentic.state.leases import AnyLease
from agentic.state.silence import ChannelRef

log = logging.getLogger(__name__)

DEFER_AFTER = 1.5  # of Discord's three seconds, because the event and the response take time
MAX_SECONDS = 60.0
SUB_GROUP = 2
STRING_SELECT = 3  # a type of component
STYLE = Style()


class Slash(discord.Cog):
    """Answers one bot's interactions, but only in the process that holds the bot's `lease`."""

    def __init__(self, bot: discord.Bot, gate: Gate, actions: Actions, lease: AnyLease) -> None:
        self.bot, self.gate, self._actions, self._lease = bot, gate, actions, lease

    @discord.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        command = read_interaction(interaction)
        if command is None or not self._lease.is_held:
            return
        try:
            if interaction.type is discord.InteractionType.auto_complete:
                await self._offer(interaction, command)
            else:
                await self._serve(interaction, command)
        except REQUEST_ERRORS as error:
            log.warning("/%s: sending the reply failed: %s", command.name, type(error).__name__)

    async def _offer(self, interaction: discord.Interaction, command: ActionRequest) -> None:
        """Show choices for the option that is being typed, or none if reading them fails or takes too long."""
        _, options = _options(interaction.data or {})
        focused = next((option for option in options if option.get("focused")), {"name": "", "value": ""})
        try:
            async with asyncio.timeout(DEFER_AFTER):
                choices = await self._actions.complete(command, str(focused["name"]), str(focused["value"]))
        except Exception as error:
            log.warning("/%s: reading choices for %s failed: %s", command.name, focused["name"], type(error).__name__)
            choices = ()
        cut = ((choice.label[:CHOICE_CHARACTERS], choice.value[:CHOICE_CHARACTERS]) for choice in choices[:MAX_CHOICES])
        await self.gate.offer(interaction, [discord.OptionChoice(*each) for each in cut])

    async def _serve(self, interaction: discord.Interaction, command: ActionRequest) -> None:
        answering = asyncio.create_task(self._outcome(command), name=f"/{command.name}")
        try:
            await asyncio.wait((answering,), timeout=DEFER_AFTER)
            if not answering.done():
                await self.gate.defer(interaction)
            await self._show(interaction, await answering)
        finally:
            answering.cancel()

    async def _show(self, interaction: discord.Interaction, outcome: Outcome) -> None:
        is_late, reply, text = interaction.response.is_done(), outcome.reply, STYLE.text_of(outcome)
        if isinstance(reply, Form) and self.gate.clean(reply.text) != reply.text:  # it would come back redacted
            text, reply = STYLE.text_of(refused("form_has_secret")), None
        elif is_late and (isinstance(reply, Form) or outcome.is_public):  # the deferral was visible to one person only
            text, reply = STYLE.text_of(refused("too_slow")), None
        if isinstance(reply, Form):
            await self.gate.show_form(interaction, build_modal(reply))
        elif isinstance(reply, Menu):
            await self.gate.answer(interaction, reply.text, view=build_menu(reply))
        else:
            public, attach = outcome.is_public and not is_late, None
            if isinstance(reply, File):
                data, name = self.gate.clean(reply.text).encode("utf-8", "replace"), reply.name
                attach = lambda: discord.File(io.BytesIO(data), filename=name)  # noqa: E731
            await self.gate.answer(interaction, text, public=public, attach=attach, more=outcome.more)

    async def _outcome(self, command: ActionRequest) -> Outcome:
        try:
            async with asyncio.timeout(MAX_SECONDS):
                return await self._actions.perform(command)
        except TimeoutError:
            log.warning("/%s: canceled after %.0f s", command.name, MAX_SECONDS)
            return refused("too_slow")
        except Exception:
            # The outermost edge of a command: the person gets a line, and the log gets the traceback.
            log.exception("/%s failed", command.name)
            return refused("failed")


def build_modal(form: Form) -> discord.ui.Modal:
    modal = discord.ui.Modal(title=form.title[:TITLE_CHARACTERS], custom_id=form.id, store=False)
    for each in form.fields:
        modal.add_item(
            discord.ui.InputText(
                style=discord.InputTextStyle.long if each.long else discord.InputTextStyle.short,
                label=each.label[:LABEL_CHARACTERS],
                placeholder=each.hint[:HINT_CHARACTERS] or None,
                custom_id=each.id,
                value=each.text[: each.most] or None,
                required=each.required,
                max_length=each.most,
            )
        )
    return modal


def build_menu(menu: Menu) -> discord.ui.View:
    choices = menu.choices[:MAX_CHOICES]
    select: discord.ui.Select[Any, Any, Any] = discord.ui.Select(
        custom_id=menu.id,
        placeholder=menu.hint[:HINT_CHARACTERS] or None,
        min_values=min(menu.fewest, len(choices)),
        max_values=min(menu.most, len(choices)),
        options=[
            discord.SelectOption(
                label=choice.label[:CHOICE_CHARACTERS],
                value=choice.value,
                description=choice.about[:CHOICE_CHARACTERS] or None,
            )
            for choice in choices
        ],
    )
    return discord.ui.View(select, timeout=None, store=False)


def read_form(data: Mapping[str, Any]) -> dict[str, str]:
    """Return a submitted form's texts by field id. A row is an action row of inputs, or a label with one input."""
    rows = data.get("components")
    texts: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        inner = row.get("components") or row.get("component") if isinstance(row, dict) else None
        for field in inner if isinstance(inner, list) else [inner]:
            if isinstance(field, dict):
                texts[str(field.get("custom_id", ""))] = str(field.get("value") or "")
    return texts


def read_interaction(interaction: discord.Interaction) -> ActionRequest | None:
    """Return an interaction's command, complete or being typed, or None for another kind, such as a button."""
    data: Mapping[str, Any] = interaction.data or {}
    if interaction.channel_id is None or interaction.user is None:
        return None
    shown = str(data.get("custom_id", ""))  # of a form or a menu of ours
    if interaction.type is discord.InteractionType.modal_submit:
        return _request(interaction, f"{FORM} {shown.partition(':')[0]}", {**read_form(data), "id": shown})
    if interaction.type is discord.InteractionType.component and data.get("component_type") == STRING_SELECT:
        chosen = tuple(map(str, data.get("values") or ()))
        return _request(interaction, f"{MENU} {shown.partition(':')[0]}", {"id": shown}, chosen)
    if interaction.type not in (discord.InteractionType.application_command, discord.InteractionType.auto_complete):
        return None
    if data.get("type") == MESSAGE:
        return _request(interaction, str(data["name"]), {"message": str(data["target_id"])})
    if data.get("type", SLASH) != SLASH:
        return None
    path, options = _options(data)
    return _request(interaction, path, {option["name"]: option["value"] for option in options})


def _options(data: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return the command with its subcommand, such as "bots mute", and the given options."""
    path, options = str(data["name"]), data.get("options") or ()
    while options and options[0]["type"] in (SUB_COMMAND, SUB_GROUP):
        path, options = f"{path} {options[0]['name']}", options[0].get("options") or ()
    return path, options


def _request(
    interaction: discord.Interaction, name: str, values: Mapping[str, str | int], chosen: tuple[str, ...] = ()
) -> ActionRequest:
    user = interaction.user
    assert interaction.channel_id is not None
    assert user is not None
    who = Person(user.id, name=clean_name(user.display_name))
    if isinstance(user, discord.Member):
        may = interaction.permissions
        who = replace(
            who,
            roles=frozenset(role.id for role in user.roles),
            manages_messages=may.manage_messages or may.administrator,
            manages_guild=may.manage_guild or may.administrator,
        )
    return ActionRequest(
        id=interaction.id,
        name=name,
        who=who,
        place=ChannelRef(interaction.channel_id, parent_of(interaction.channel), interaction.guild_id),
        values=values,
        chosen=chosen,
        source=f"c{interaction.id}",
    )
