"""The slash commands of one bot: interactions become requests, handlers answer them, replies go back.

A command works in the channels that the bots speak in. Discord shows every command to everyone, so rights are checked
at each use, and a person without them gets a line that says which one is missing.

Discord wants a first response within three seconds, so a slow reply is deferred ("thinking…"). An interaction's token
lives for 15 minutes. py-cord keeps no form and no menu (`store=False`): what a person fills in or chooses comes back as
an interaction, in whichever process the bot runs by then.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import discord

from agent_cogs.slash_definitions import MESSAGE, OLD_NAMES, SLASH, SUB_COMMAND
from agentic.actions.base import (
    CHOICE_CHARACTERS,
    FORM,
    HINT_CHARACTERS,
    LABEL_CHARACTERS,
    MAX_BACK,
    MAX_CHOICES,
    MAX_MUTE_MINUTES,
    MAX_STOP_MINUTES,
    MENU,
    MUTE_MINUTES,
    TITLE_CHARACTERS,
    UNKNOWN,
    WHY,
    ActionRequest,
    CommandReply,
    Complete,
    Completion,
    Form,
    Handle,
    Menu,
    Response,
    agent_in,
    confirm,
    no_choices,
    unknown_agent,
    unknown_value,
)
from agentic.actions.config import ConfigCommands
from agentic.actions.conversations import ConversationCommands, QuestionCommands
from agentic.actions.explain import NO_RECORD, turn_link, unasked_text, why, why_not
from agentic.actions.personas import EDIT_FILE, PersonaCommands, PersonaFileEditor, here_alone
from agentic.actions.privacy import MemoryCommands
from agentic.actions.registry import note_of
from agentic.actions.room_create import Problem, RoomCreation
from agentic.actions.rooms import Completions, RoomCommands
from agentic.actions.status import read_status
from agentic.agent.persona import MANAGERS_ONLY, FileRights
from agentic.agent.services import Services
from agentic.chat.directory import clean_name
from agentic.chat.service import Person
from agentic.inbox.stop_orders import may_stop
from agentic.personas.files import PERSONA_FILES
from agentic.personas.memory import MaySee
from agentic.rooms.opening import RoomOpener
from agentic.services.discord.channels import parent_of
from agentic.services.discord.gate import REQUEST_ERRORS, Gate
from agentic.state.leases import AnyLease
from agentic.state.silence import Scope
from agentic.text import lasting
from agentic.turn.history import reset_conversation
from agentic.wire.connection import StateUnavailable

log = logging.getLogger(__name__)


DEFER_AFTER = 1.5  # seconds of Discord's three: the gateway took some, and the response has to travel
MAX_SECONDS = 60.0
SUB_GROUP = 2
STRING_SELECT = 3  # a type of component
NOT_EDITABLE = "This file contains a secret or a private path, so it cannot be edited here. Edit it on disk."
FAILED = "Something went wrong. The owner finds the details in the log."
TOO_SLOW = "That took too long and was cancelled. Please try again in a while."
NOT_HERE = "The bots only work in their configured channels, and this is not one of them."
REDIS_AWAY = "The bots' shared storage (Redis) is unavailable, so this was not completed. Please try again in a minute."
NOT_ALL = "Not everything could be removed; the owner's log says what is left. Please try again in a minute."
NO_RIGHT_TO_RESET = (
    "You need the Manage Messages permission for that, because it clears the bots' context for everyone here. In a"
    " direct message to a bot you can reset your own."
)
# The owner's act everywhere, as do those of who manages the bots' only server; those of other managers in their server.
IN_SERVERS = frozenset(f"bots {part}" for part in ("status", "pause", "resume", "mute", "unmute", "ignore", "unignore"))
_MESSAGE_ID = re.compile(r"(?:.*/)?(\d{15,20})/?", re.DOTALL)
ParentOf = Callable[[int], int | None]  # a thread's channel, if it is known


class Slash(discord.Cog):
    """Listen for one bot's interactions. `lease`: whether this process holds the bot's lease; only one may answer."""

    def __init__(
        self, bot: discord.Bot, gate: Gate, answer: Handle, lease: AnyLease, complete: Complete = no_choices
    ) -> None:
        self.bot, self.gate = bot, gate
        self._answer, self._complete, self._lease = answer, complete, lease

    @discord.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        command = read_interaction(interaction)
        if command is None or not self._lease.is_held:
            return
        try:
            if (typed := read_completion(interaction, command)) is not None:
                await self._offer(interaction, typed)
            else:
                await self._serve(interaction, command)
        except REQUEST_ERRORS as error:
            log.warning("/%s: reply not sent: %s", command.name, type(error).__name__)

    async def _offer(self, interaction: discord.Interaction, typed: Completion) -> None:
        """Show choices for what is being typed; none if they cannot be read in time."""
        try:
            async with asyncio.timeout(DEFER_AFTER):
                choices = await self._complete(typed)
        except Exception as error:
            log.warning("/%s: no choices for %s: %s", typed.command.name, typed.option, type(error).__name__)
            choices = ()
        offered = [
            discord.OptionChoice(choice.label[:CHOICE_CHARACTERS], choice.value[:CHOICE_CHARACTERS])
            for choice in choices[:MAX_CHOICES]
        ]
        await self.gate.offer(interaction, offered)

    async def _serve(self, interaction: discord.Interaction, command: ActionRequest) -> None:
        answering = asyncio.create_task(self._text(command), name=f"/{command.name}")
        try:
            await asyncio.wait((answering,), timeout=DEFER_AFTER)
            if not answering.done():
                await self.gate.defer(interaction)
            await self._give(interaction, await answering)
        finally:
            answering.cancel()

    async def _give(self, interaction: discord.Interaction, response: Response) -> None:
        is_late = interaction.response.is_done()
        if isinstance(response, Form):
            if self.gate.clean(response.text) != response.text:  # the form would come back redacted
                await self.gate.answer(interaction, NOT_EDITABLE)
            elif is_late:
                await self.gate.answer(interaction, TOO_SLOW)
            else:
                await self.gate.show_form(interaction, build_modal(response))
            return
        if isinstance(response, Menu):
            await self.gate.answer(interaction, response.text, view=build_menu(response))
            return
        reply = response if isinstance(response, CommandReply) else CommandReply(response)
        if reply.public and is_late:
            reply = CommandReply(TOO_SLOW)  # the deferral was visible to one person alone
        name, text = reply.file or ("", "")
        data = self.gate.clean(text).encode("utf-8", "replace")
        attach = (lambda: discord.File(io.BytesIO(data), filename=name)) if reply.file else None
        await self.gate.answer(interaction, reply.text, public=reply.public, attach=attach)

    async def _text(self, command: ActionRequest) -> Response:
        try:
            async with asyncio.timeout(MAX_SECONDS):
                return await self._answer(command)
        except TimeoutError:
            log.warning("/%s: cancelled after %.0f s", command.name, MAX_SECONDS)
            return TOO_SLOW
        except Exception:
            # The outermost edge of a command: the person gets a line, the log the traceback.
            log.exception("/%s failed", command.name)
            return FAILED


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
    """Return the texts of a submitted form by the fields' ids. A row is an action row of inputs, or a label of one."""
    rows = data.get("components")
    texts: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        inner = row.get("components") or row.get("component") if isinstance(row, dict) else None
        for field in inner if isinstance(inner, list) else [inner]:
            if isinstance(field, dict):
                texts[str(field.get("custom_id", ""))] = str(field.get("value") or "")
    return texts


def read_interaction(interaction: discord.Interaction) -> ActionRequest | None:
    """Return the command of an interaction, complete or being typed; None for other kinds, such as a button."""
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
    if data.get("type", SLASH) not in (SLASH, MESSAGE):
        return None
    if data.get("type") == MESSAGE:
        return _request(interaction, str(data["name"]), {"message": str(data["target_id"])})
    path, options = _options(data)
    return _request(interaction, path, {option["name"]: option["value"] for option in options})


def read_completion(interaction: discord.Interaction, command: ActionRequest) -> Completion | None:
    """Return the option that a person is typing; None if the interaction is of another kind."""
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
        channel_id=interaction.channel_id,
        guild_id=interaction.guild_id,
        parent_id=parent_of(interaction.channel),
        values=values,
        chosen=chosen,
    )


class SlashHandlers:
    """Answer a bot's slash commands. `opener` opens rooms; `room_problem` says why Discord lets the bot open none in a
    channel; `parent` maps a thread to its channel; `may_see`: of a channel, which others all its readers may read."""

    def __init__(
        self,
        services: Services,
        rights: FileRights,
        opener: RoomOpener,
        room_problem: Problem,
        parent: ParentOf = lambda _: None,
        may_see: Callable[[int], MaySee] = here_alone,
    ) -> None:
        self._services, self._rights, self._parent, self._may_see = services, rights, parent, may_see
        self._files = PersonaFileEditor(services.settings.persona_folder, services.names, may_see)
        rooms, personas = RoomCommands(services, may_see), PersonaCommands(services)
        self.room_creation = creation = RoomCreation(services, opener, room_problem, self._is_here)
        self.complete = Completions(services.roster, services.state.coordination.rooms, may_see).complete
        everyone: Mapping[str, Handle] = {
            "bots status": self._status,
            "stop": self._stop,
            "resume": self._resume,
            "forget me": self._forget,
            "why": self._why,
            WHY: self._why,
            "why-not": self._why_not,
            "reset": self._reset,
            **QuestionCommands(services).everyone,
            **MemoryCommands(services.own_memory, services.privacy).everyone,
            **rooms.everyone,
            **personas.everyone,
        }
        conversations = ConversationCommands(services, self._is_here)
        self._managers: Mapping[str, Handle] = {
            "bots start": conversations.start,
            "bots next": conversations.next,
            "bots end": conversations.end,
            "bots pause": conversations.pause,
            "bots resume": conversations.resume,
            "bots mute": self._mute,
            "bots unmute": self._unmute,
            "bots ignore": self._ignore,
            "bots unignore": self._unignore,
            **creation.managers,
            **rooms.managers,
            **personas.managers,
            **ConfigCommands(services, rights).managers,
            "agent-file show": self._show_file,
        }
        self._owners: Mapping[str, Handle] = {
            "agent-file edit": self._edit_file,
            f"{FORM} {EDIT_FILE}": self._files.save_form,
            **personas.owners,
        }
        self._handlers = {**everyone, **self._managers, **self._owners}

    async def answer(self, command: ActionRequest) -> Response:
        """Run the command and return what to show the person."""
        if self._services.scope.theme(command.channel_id, command.parent_id, command.guild_id) is None:
            return NOT_HERE
        command = replace(command, name=OLD_NAMES.get(command.name, command.name))
        handler = self._handlers.get(command.name)
        if command.name in self._managers and not command.who.manages_guild:
            return MANAGERS_ONLY
        if command.name in IN_SERVERS and command.who.manages_guild:
            may_not = await self._rights.refusal(command.who, command.guild_id)
            command = replace(command, acts_everywhere=may_not is None)
        if command.name in self._owners and (refusal := await self._rights.refusal(command.who, command.guild_id)):
            return refusal
        if handler is None:
            log.warning("/%s is unknown to this version; Discord may still show an older list", command.name)
            return UNKNOWN
        try:
            response = await handler(command)
            # Without the right, /stop only cancels what is the person's own, which the record doesn't note.
            acts = self._may_stop(command) if command.name in ("stop", "resume") else True
            acts = acts and (command.name != "reset" or command.who.manages_messages)
            if acts and (note := note_of(command, response, self._services.clock())) is not None:
                self._services.record.note(note)
            return response
        except StateUnavailable as away:
            log.warning("/%s was not carried out: Redis is unavailable (%s)", command.name, away)
            return REDIS_AWAY

    def _is_here(self, channel_id: int, command: ActionRequest) -> bool:
        """Whether the channel is in the command's server. A channel that the bot can't see may be in another server."""
        guild_id = self._rights.guild_of(channel_id)
        if guild_id is None:
            return channel_id == command.channel_id or self._services.scope.guild_ids == {command.guild_id}
        return guild_id == command.guild_id

    async def _status(self, command: ActionRequest) -> str:
        status = await read_status(self._services, command)
        shown = (lambda _: True) if command.who.manages_guild else self._may_see(command.channel_id)
        stops = status.stops.items()
        here = {channel: left for channel, left in stops if self._is_here(channel, command) and shown(channel)}
        return replace(status, stops=here).text(command.channel_id, self._services.names)

    async def _stop(self, command: ActionRequest) -> str:
        silence, channel_id = self._services.silence, command.channel_id
        if not self._may_stop(command):
            await silence.cancel_replies(command.who.user_id, channel_id)
            return "Cancelled the bots' answers to you here. You don't have permission to silence the bots."
        minutes = _number(command, "minutes", 0, MAX_STOP_MINUTES)
        await silence.stop(Scope.channel(channel_id), minutes * 60.0 or None, source=f"c{command.id}")
        how_long = lasting(minutes * 60.0) if minutes else "up to a day"
        text = f"The bots are silent here for {how_long}. Use /resume to lift it."
        return self._confirm(text)

    async def _resume(self, command: ActionRequest) -> str:
        if not self._may_stop(command):
            return "You don't have permission to lift a stop."
        silence = self._services.silence
        if command.parent_id is not None and command.parent_id in silence.stopped_channels():
            return f"The bots are stopped in all of <#{command.parent_id}>. Use /resume there."
        resumed = await silence.resume_channel(command.channel_id, self._parent)
        text = "The bots may speak here again." if resumed else "Nothing was stopped here."
        if silence.check(command.place) is not None:  # a pause is left
            text = "All bots are paused until /bots resume."
        return self._confirm(text)

    def _may_stop(self, command: ActionRequest) -> bool:
        settings = self._services.settings
        return command.guild_id is None or may_stop(command.who, settings.moderators)

    async def _forget(self, command: ActionRequest) -> str:
        forgotten = await self._services.forgetting.forget(command.who.user_id)
        return forgotten.text() if forgotten.whole else NOT_ALL

    async def _why(self, command: ActionRequest) -> str:
        found = _MESSAGE_ID.fullmatch(str(command.values.get("message", "")).strip())
        if found is None:
            return "That is not a message link or id. Right-click the message and choose Copy Message Link."
        services, message_id = self._services, int(found[1])
        record = await services.state.turns.records.of_message(message_id, services.roster.names)
        may_see = self._may_see(command.channel_id)
        if record is not None and (record.guild_id not in (None, command.guild_id) or not may_see(record.channel_id)):
            return NO_RECORD
        text = await why(services.state, services.roster.names, message_id, services.clock())
        if text == NO_RECORD:
            return await self._why_unasked(message_id, command)
        base = services.settings.console_link
        if record is None or base is None or not self._may_stop(command):
            return text
        return f"{text}\nIn the console: <{turn_link(base, record)}>"

    async def _why_unasked(self, message_id: int, command: ActionRequest) -> str:
        """Explain an unprompted message whose turn Redis no longer has."""
        sent = await self._services.memory.unasked(message_id)
        if sent is None or not self._is_here(sent.channel_id, command):
            return NO_RECORD
        seen = self._may_see(command.channel_id)(sent.channel_id)
        return unasked_text(sent, self._services.roster.names) if seen else NO_RECORD

    async def _why_not(self, command: ActionRequest) -> str:
        services = self._services
        agent = agent_in(command, services.names)
        if agent is None:
            return unknown_agent(command, services.names)
        return await why_not(services, agent, command.place, services.clock())

    async def _reset(self, command: ActionRequest) -> Response:
        chosen = agent_in(command, self._services.names)
        if chosen is None and "agent" in command.values:
            return unknown_agent(command, self._services.names)
        if command.guild_id is not None and not command.who.manages_messages:
            return NO_RIGHT_TO_RESET
        agents = [chosen] if chosen else self._services.names
        await reset_conversation(self._services, agents, command.channel_id, command.id)
        if command.guild_id is None:
            return "I start fresh here: earlier messages are no longer context."
        shown = self._services.names[chosen] if chosen else "Every bot"
        return f"{shown} starts fresh here: earlier messages are no longer context."

    async def _mute(self, command: ActionRequest) -> str:
        agent = agent_in(command, self._services.names)
        if agent is None:
            return unknown_agent(command, self._services.names)
        seconds = _number(command, "minutes", MUTE_MINUTES, MAX_MUTE_MINUTES) * 60.0
        await self._services.silence.stop(command.scopes("agent", agent)[0], seconds, source=f"c{command.id}")
        return self._confirm(
            f"{self._services.names[agent]} is muted {command.where} for {lasting(seconds)}; it may finish a message"
            " that it is writing. Use /bots unmute to lift this."
        )

    async def _unmute(self, command: ActionRequest) -> str:
        agent = agent_in(command, self._services.names)
        if agent is None:
            return unknown_agent(command, self._services.names)
        silence, shown = self._services.silence, self._services.names[agent]
        resumed = await silence.resume_all(command.scopes("agent", agent))
        if agent in silence.muted_agents():
            return self._confirm(f"The bots' owner has muted {shown} everywhere, so only the owner can unmute it.")
        return self._confirm(f"{shown} may speak again." if resumed else f"{shown} was not muted.")

    async def _ignore(self, command: ActionRequest) -> str:
        user_id = int(command.values["user"])
        outcome = await self._services.silence.stop(command.scopes("person", user_id)[0])
        return self._confirm(
            {
                "first": f"The bots now ignore <@{user_id}> {command.where}. Use /bots unignore to lift this.",
                "known": f"<@{user_id}> is already ignored.",
                "full": "The list of ignored people is full. Use /bots unignore to make room.",
            }[outcome]
        )

    async def _unignore(self, command: ActionRequest) -> str:
        user_id = int(command.values["user"])
        if user_id in self._services.settings.ignore_user_ids:
            return f"<@{user_id}> is ignored by the setting IGNORE_USER_IDS, which only the owner can change."
        silence = self._services.silence
        resumed = await silence.resume_all(command.scopes("person", user_id))
        if silence.is_ignored(user_id):
            return self._confirm(
                f"The bots' owner has them ignore <@{user_id}> everywhere; only the owner can end that."
            )
        return self._confirm(f"The bots listen to <@{user_id}> again." if resumed else f"<@{user_id}> was not ignored.")

    def _confirm(self, text: str) -> str:
        return confirm(text, self._services.bus.ready.is_set())

    async def _show_file(self, command: ActionRequest) -> Response:
        named = self._file_in(command)
        if isinstance(named, str):
            return named
        return await self._files.show(*named, command.channel_id, _number(command, "back", 0, MAX_BACK))

    async def _edit_file(self, command: ActionRequest) -> Response:
        named = self._file_in(command)
        return named if isinstance(named, str) else await self._files.form(*named, command.channel_id)

    def _file_in(self, command: ActionRequest) -> tuple[str, str] | str:
        """Return the agent and the persona file that the options name, or why there are none. People also write the
        file's name without its ending or in capitals."""
        agent, written = agent_in(command, self._services.names), str(command.values.get("file", "")).strip()
        if agent is None:
            return unknown_agent(command, self._services.names)
        name = f"{written.lower().removesuffix('.md')}.md"
        return (agent, name) if name in PERSONA_FILES else unknown_value("persona file", written, PERSONA_FILES)


def _number(command: ActionRequest, option: str, default: int, limit: int) -> int:
    """The option's value, limited to 0..`limit`: Discord checks it only in its own client."""
    return min(max(int(command.values.get(option, default)), 0), limit)
