"""Slash command handlers: plain values in, a reply out, no Discord objects.

A command works in the channels that the bots speak in. Discord shows every command to everyone, so rights are checked
at each use, and a person without them gets a line that says which one is missing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from agent_cogs.slash_definitions import LONGEST_MUTE, LONGEST_STOP, MOST_BACK, OLD_NAMES, WHY
from agentic.actions.base import (
    FORM,
    UNKNOWN,
    CommandInvocation,
    Handle,
    Response,
    agent_in,
    heard,
    text_in,
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
from agentic.agent.services import AgentServices
from agentic.inbox.stop_orders import may_stop
from agentic.personas.files import PERSONA_FILES
from agentic.personas.memory import MaySee
from agentic.rooms.opening import RoomOpener
from agentic.state.turn_records import TurnRecord
from agentic.text import lasting
from agentic.turn.history import reset_conversation
from agentic.wire.connection import RedisAway

MUTE_MINUTES = 60
NOT_HERE = "The bots only work in their configured channels, and this is not one of them."
REDIS_AWAY = "The bots' shared storage (Redis) is unavailable, so this was not completed. Please try again in a minute."
NOT_ALL = "Not everything could be removed; the owner's log says what is left. Please try again in a minute."
NO_RIGHT_TO_RESET = (
    "You need the Manage Messages permission for that, because it clears the bots' context for everyone here. In a"
    " direct message to a bot you can reset your own."
)

# These act in every server of the bots, so with several servers they are the owner's.
IN_ALL_SERVERS = frozenset(f"bots {part}" for part in ("pause", "resume", "mute", "unmute", "ignore", "unignore"))
ACTS_IN_ALL_SERVERS = "This acts in all servers of the bots, so only the bots' owner may use it."

_MESSAGE_ID = re.compile(r"(?:.*/)?(\d{15,20})/?", re.DOTALL)

ParentOf = Callable[[int], int | None]  # a thread's channel, if it is known

log = logging.getLogger(__name__)


class SlashHandlers:
    """Answer a bot's slash commands. `opener` opens rooms; `room_problem` says why Discord lets the bot open none in a
    channel; `parent` maps a thread to its channel; `may_see`: of a channel, which others all its readers may read."""

    def __init__(
        self,
        services: AgentServices,
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
        self.complete = Completions(services.roster, services.ledger.rooms, may_see).complete
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
            f"{FORM} {EDIT_FILE}": self._save_file,
            **personas.owners,
        }
        self._handlers = {**everyone, **self._managers, **self._owners}

    async def answer(self, command: CommandInvocation) -> Response:
        """Run the command and return what to show the person."""
        if self._services.scope.theme(command.channel_id, command.parent_id, command.guild_id) is None:
            return NOT_HERE
        command = replace(command, name=OLD_NAMES.get(command.name, command.name))
        handler = self._handlers.get(command.name)
        if command.name in self._managers and not command.who.manages_guild:
            return MANAGERS_ONLY
        if command.name in IN_ALL_SERVERS:
            refusal = await self._rights.refusal(command.who, command.guild_id, ACTS_IN_ALL_SERVERS)
            if refusal is not None:
                return refusal
        if command.name in self._owners and (refusal := await self._rights.refusal(command.who, command.guild_id)):
            return refusal
        if handler is None:
            log.warning("/%s is unknown to this version; Discord may still show an older list", command.name)
            return UNKNOWN
        try:
            response = await handler(command)
            if self._acts(command) and (note := note_of(command, response, self._services.clock())) is not None:
                self._services.record.note(note)
            return response
        except RedisAway as away:
            log.warning("/%s was not carried out: Redis is unavailable (%s)", command.name, away)
            return REDIS_AWAY

    def _acts(self, command: CommandInvocation) -> bool:
        """Whether the person may act on more than what is their own; without the right, /stop only cancels that."""
        if command.name in ("stop", "resume"):
            return self._may_stop(command)
        return command.name != "reset" or command.who.manages_messages

    def _is_here(self, channel_id: int, command: CommandInvocation) -> bool:
        """Whether the channel is in the server of the command. One that the bot cannot see may be in another server."""
        guild_id = self._rights.guild_of(channel_id)
        if guild_id is None:
            return channel_id == command.channel_id or self._services.scope.guild_ids == {command.guild_id}
        return guild_id == command.guild_id

    # -- everyone -------------------------------------------------------------------------------------------------

    async def _status(self, command: CommandInvocation) -> str:
        status = await read_status(self._services, command.channel_id, command.parent_id)
        shown = (lambda _: True) if command.who.manages_guild else self._may_see(command.channel_id)
        stops = status.stops.items()
        here = {channel: left for channel, left in stops if self._is_here(channel, command) and shown(channel)}
        return replace(status, stops=here).text(command.channel_id, self._services.names)

    async def _stop(self, command: CommandInvocation) -> str:
        stops, channel_id = self._services.stops, command.channel_id
        if not self._may_stop(command):
            await stops.hush(channel_id, command.who.user_id)
            return "Cancelled the bots' answers to you here. You don't have permission to silence the bots."
        minutes = _number(command, "minutes", 0, LONGEST_STOP)
        await stops.stop(channel_id, f"c{command.id}", minutes * 60.0 or None)
        how_long = lasting(minutes * 60.0) if minutes else "up to a day"
        return self._heard(f"The bots are silent here for {how_long}. Use /resume to lift it.")

    async def _resume(self, command: CommandInvocation) -> str:
        if not self._may_stop(command):
            return "You don't have permission to lift a stop."
        stops, channel_id = self._services.stops, command.channel_id
        if command.parent_id is not None and command.parent_id in stops.held():
            return f"The bots are stopped in all of <#{command.parent_id}>. Use /resume there."
        covered = (channel_id, *(other for other in stops.held() if self._parent(other) == channel_id))
        lifted = any([await stops.lift(stopped) for stopped in covered])
        text = "The bots may speak here again." if lifted else "Nothing was stopped here."
        if stops.paused:
            text = "All bots are paused, which a server manager lifts by /bots resume."
        return self._heard(text)

    def _heard(self, text: str) -> str:
        return heard(text, self._services.bus.ready.is_set())

    def _may_stop(self, command: CommandInvocation) -> bool:
        settings = self._services.settings
        return command.guild_id is None or may_stop(command.who, settings.moderators)

    async def _forget(self, command: CommandInvocation) -> str:
        forgotten = await self._services.forgetting.forget(command.who.user_id)
        self._services.own_memory.forget(command.who.user_id)
        return forgotten.text if forgotten.whole else NOT_ALL

    async def _why(self, command: CommandInvocation) -> str:
        found = _MESSAGE_ID.fullmatch(str(command.values.get("message", "")).strip())
        if found is None:
            return "That is not a message link or id. Right-click the message and choose Copy Message Link."
        services, message_id = self._services, int(found[1])
        record = await services.ledger.records.of_message(message_id, services.roster.names)
        if record is not None and not self._may_explain(record, command):
            return NO_RECORD
        text = await why(services.ledger, services.roster.names, message_id, services.clock())
        if text == NO_RECORD:
            return await self._why_unasked(message_id, command)
        base = services.settings.console_link
        if record is None or base is None or not self._may_stop(command):
            return text
        return f"{text}\nIn the console: <{turn_link(base, record)}>"

    async def _why_unasked(self, message_id: int, command: CommandInvocation) -> str:
        """Why an unasked message came of whose turn Redis knows nothing any more."""
        sent = await self._services.memory.unasked(message_id)
        if sent is None or not self._is_here(sent.channel_id, command):
            return NO_RECORD
        seen = self._may_see(command.channel_id)(sent.channel_id)
        return unasked_text(sent, self._services.roster.names) if seen else NO_RECORD

    def _may_explain(self, record: TurnRecord, command: CommandInvocation) -> bool:
        """Whether everybody who reads the channel of the command may read that of the turn."""
        if record.guild_id not in (None, command.guild_id):
            return False
        return self._may_see(command.channel_id)(record.channel_id)

    async def _why_not(self, command: CommandInvocation) -> str:
        agent = agent_in(command, self._services.names)
        if agent is None:
            return unknown_agent(command, self._services.names)
        services = self._services
        muted = await services.ledger.mutes.read([agent])
        return await why_not(services, agent, command.channel_id, services.clock(), muted_until=muted.get)

    async def _reset(self, command: CommandInvocation) -> Response:
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

    # -- the server's managers ------------------------------------------------------------------------------------

    async def _mute(self, command: CommandInvocation) -> str:
        agent = agent_in(command, self._services.names)
        if agent is None:
            return unknown_agent(command, self._services.names)
        seconds = _number(command, "minutes", MUTE_MINUTES, LONGEST_MUTE) * 60.0
        await self._services.ledger.mutes.mute(agent, seconds)
        log.info("%s: muted by a person for %.0f minutes", agent, seconds / 60)
        return (
            f"{self._services.names[agent]} is muted in every channel for {lasting(seconds)}; it may finish a message"
            " that it is writing. Use /bots unmute to lift this."
        )

    async def _unmute(self, command: CommandInvocation) -> str:
        agent = agent_in(command, self._services.names)
        if agent is None:
            return unknown_agent(command, self._services.names)
        lifted = await self._services.ledger.mutes.lift(agent)
        shown = self._services.names[agent]
        return f"{shown} may speak again." if lifted else f"{shown} was not muted."

    async def _ignore(self, command: CommandInvocation) -> str:
        user_id = int(command.values["user"])
        outcome = await self._services.ignores.add(user_id)
        texts = {
            "added": f"The bots now ignore <@{user_id}> in every channel. Use /bots unignore to lift this.",
            "known": f"<@{user_id}> is already ignored.",
            "full": "The list of ignored people is full. Use /bots unignore to make room.",
        }
        return texts[outcome]

    async def _unignore(self, command: CommandInvocation) -> str:
        user_id = int(command.values["user"])
        if user_id in self._services.settings.ignore_user_ids:
            return f"<@{user_id}> is ignored by the setting IGNORE_USER_IDS, which only the owner can change."
        removed = await self._services.ignores.remove(user_id)
        return f"The bots listen to <@{user_id}> again." if removed else f"<@{user_id}> was not ignored."

    async def _show_file(self, command: CommandInvocation) -> Response:
        agent, name = agent_in(command, self._services.names), _file_named(command)
        if agent is None:
            return unknown_agent(command, self._services.names)
        if name not in PERSONA_FILES:
            return unknown_value("persona file", name, PERSONA_FILES)
        return await self._files.show(agent, name, command.channel_id, _number(command, "back", 0, MOST_BACK))

    async def _edit_file(self, command: CommandInvocation) -> Response:
        agent, name = agent_in(command, self._services.names), _file_named(command)
        if agent is None:
            return unknown_agent(command, self._services.names)
        if name not in PERSONA_FILES:
            return unknown_value("persona file", name, PERSONA_FILES)
        return await self._files.form(agent, name, command.channel_id)

    async def _save_file(self, command: CommandInvocation) -> Response:
        return await self._files.save(str(command.values.get("id", "")), text_in(command.values))


def _file_named(command: CommandInvocation) -> str:
    """Return the persona file that the option names, also without its ending or in capitals; else what was written."""
    written = str(command.values.get("file", "")).strip()
    name = f"{written.lower().removesuffix('.md')}.md"
    return name if name in PERSONA_FILES else written


def _number(command: CommandInvocation, option: str, default: int, most: int) -> int:
    """The option's value, limited to 0..`most`: Discord checks it only in its own client."""
    value = command.values.get(option, default)
    return min(max(int(value), 0), most)
