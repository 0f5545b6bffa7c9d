"""The desk where people's commands are dealt with: what each one does, and what the person is told.

Plain values in, a text out; it knows no Discord. A command counts in the channels that the program speaks in, and
whoever may not do something is told so. Discord hides nothing here: rights are checked for each use.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from agent_chat.incoming import Heard
from agent_cogs.inbox.stop_orders import may_stop
from agent_cogs.inbox.triggers import Ignored
from agent_cogs.persona.file_rights import MANAGERS_ONLY, FileRights
from agent_cogs.prompt.conversation import reset_conversation
from agent_cogs.services import AgentServices
from agent_cogs.slash.persona_files import PersonaFileEditor, here_alone
from agent_cogs.slash.status import look
from agent_cogs.slash.why import NO_RECORD, why, why_not
from agent_cogs.slash.wording import lasting
from agent_discord.objects.messages import question_text
from agent_discord.slash.cog import CommandInvocation
from agent_discord.slash.definitions import FORM, LONGEST_MUTE, LONGEST_STOP, MOST_BACK, WHY
from agent_discord.slash.responses import CommandReply, Response
from agent_personas.memory import MaySee
from agent_protocol.connection.link import RedisAway
from agent_protocol.wire.coordinator_commands import NOBODY
from agent_protocol.wire.messages import Command

MUTE_MINUTES = 60
NOT_HERE = "I only listen in the channels that I was given, and this is none of them."
AWAY = (
    "The memory that the bots share (Redis) is away right now, so this could not be done. Please try again in a minute."
)
ONLY_HERE = "The bots' shared memory (Redis) is away: until it is back, bots of other processes do not know it."
NOT_ALL = "Not all of it could be removed; the owner's log says what was left. Please try again in a minute."
UNKNOWN = "I don't know this command (any more). Please try again in an hour."
RESETS = (
    "Only who may manage messages here can do that, since it clears what the bots know of everybody's talk. In a direct"
    " message to a bot you may reset your own."
)
STARTED: Mapping[str, str] = {
    "started": "A conversation begins in {where}.",
    "busy": "There is a conversation in {where} already.",
    "stopped": "A person wants silence in {where}: /resume there lifts it.",
    "unknown_channel": "The coordinator does not know {where}.",
    "no_agents": "There are no bots to converse.",
    NOBODY: "No coordinator answers: either none is running, or it is busy. Nothing was started as far as I know.",
}

_MESSAGE_ID = re.compile(r"(?:.*/)?(\d{15,20})/?", re.DOTALL)

Handler = Callable[[CommandInvocation], Awaitable[Response]]
Parent = Callable[[int], int | None]  # the channel that a thread hangs on, as far as it is known

log = logging.getLogger(__name__)


class SlashHandlers:
    """One bot's."""

    def __init__(
        self,
        services: AgentServices,
        rights: FileRights,
        parent: Parent = lambda _: None,
        may_see: Callable[[int], MaySee] = here_alone,
    ) -> None:
        self._services, self._rights, self._parent = services, rights, parent
        self._files = PersonaFileEditor(services.settings.personas_dir, services.names, may_see)
        everyones: Mapping[str, Handler] = {
            "bots status": self._status,
            "stop": self._stop,
            "resume": self._resume,
            "forget me": self._forget,
            "why": self._why,
            WHY: self._why,
            "why-not": self._why_not,
            "ask": self._ask,
            "reset": self._reset,
        }
        self._managers: Mapping[str, Handler] = {
            "bots start": self._start,
            "bots mute": self._mute,
            "bots unmute": self._unmute,
            "bots ignore": self._ignore,
            "bots unignore": self._unignore,
            "agent-file show": self._show_file,
        }
        self._owners: Mapping[str, Handler] = {"agent-file edit": self._edit_file, FORM: self._save_file}
        self._handlers = {**everyones, **self._managers, **self._owners}

    async def answer(self, asked: CommandInvocation) -> Response:
        """What the person is told."""
        if self._services.scope.theme(asked.channel_id, asked.parent_id, asked.guild_id) is None:
            return NOT_HERE
        handler = self._handlers.get(asked.command)
        if asked.command in self._managers and not asked.who.manages_guild:
            return MANAGERS_ONLY
        if asked.command in self._owners and (refusal := await self._rights.refusal(asked.who, asked.guild_id)):
            return refusal
        if handler is None:
            log.warning("/%s is not known here", asked.command)
            return UNKNOWN
        try:
            return await handler(asked)
        except RedisAway as away:
            log.warning("/%s was not done, Redis is away: %s", asked.command, away)
            return AWAY

    def _is_here(self, channel_id: int, asked: CommandInvocation) -> bool:
        """Other servers' channels are no matter of this one; one that this bot does not see may be another server's."""
        guild_id = self._rights.guild_of(channel_id)
        if guild_id is None:
            return channel_id == asked.channel_id or self._services.scope.guild_ids == {asked.guild_id}
        return guild_id == asked.guild_id

    # -- for everyone -------------------------------------------------------------------------------------------------

    async def _status(self, asked: CommandInvocation) -> str:
        board = await look(self._services, asked.channel_id, asked.parent_id)
        here = {channel: left for channel, left in board.stops.items() if self._is_here(channel, asked)}
        board = replace(board, stops=here)
        return board.text(asked.channel_id, self._services.names)

    async def _stop(self, asked: CommandInvocation) -> str:
        stops, channel_id = self._services.stops, asked.channel_id
        if not self._may_stop(asked):
            await stops.hush(channel_id, asked.who.user_id)
            return "What the bots were about to answer you here is stopped. To silence them is not yours to decide."
        minutes = _number(asked, "minutes", 0, LONGEST_STOP)
        await stops.stop(channel_id, f"c{asked.id}", minutes * 60.0 or None)
        behind = "" if self._services.bus.ready.is_set() else f" {ONLY_HERE}"
        how_long = lasting(minutes * 60.0) if minutes else "a day at most"
        return f"The bots are silent here for {how_long}. /resume lifts it.{behind}"

    async def _resume(self, asked: CommandInvocation) -> str:
        if not self._may_stop(asked):
            return "Only who may silence the bots can let them speak again."
        stops, channel_id = self._services.stops, asked.channel_id
        if asked.parent_id is not None and stops.holds(asked.parent_id):
            return f"The bots are silent in the whole of <#{asked.parent_id}>: /resume there lifts it."
        covered = (channel_id, *(other for other in stops.held() if self._parent(other) == channel_id))
        lifted = any([await stops.lift(stopped) for stopped in covered])
        behind = "" if self._services.bus.ready.is_set() else f" {ONLY_HERE}"
        return ("The bots may speak here again." if lifted else "Nothing was stopped here.") + behind

    def _may_stop(self, asked: CommandInvocation) -> bool:
        settings = self._services.settings
        return may_stop(asked.who, settings.stop_user_ids, settings.stop_role_ids)

    async def _forget(self, asked: CommandInvocation) -> str:
        forgotten = await self._services.forgetting.forget(asked.who.user_id)
        return forgotten.text if forgotten.whole else NOT_ALL

    async def _why(self, asked: CommandInvocation) -> str:
        found = _MESSAGE_ID.fullmatch(str(asked.values.get("message", "")).strip())
        if found is None:
            return "That is no message: please give its link (right click, Copy Message Link) or its id."
        services, message_id = self._services, int(found[1])
        record = await services.ledger.records.of_message(message_id, services.names)
        if record is not None and record.guild_id not in (None, asked.guild_id):
            return NO_RECORD  # of another server, whose matters are none of this one's
        return await why(services.ledger, services.names, message_id, services.clock())

    async def _why_not(self, asked: CommandInvocation) -> str:
        agent = self._agent(asked)
        if agent is None:
            return UNKNOWN
        services = self._services
        muted = await services.ledger.mutes.read([agent])
        return await why_not(services, agent, asked.channel_id, services.clock(), muted_until=muted.get)

    async def _ask(self, asked: CommandInvocation) -> Response:
        """The question is shown to all, and is then like a person's message that mentions the agent."""
        agent, prompt = self._agent(asked), str(asked.values.get("prompt", ""))
        if agent is None:
            return UNKNOWN
        if not prompt.strip():
            return "There is nothing in that question."
        settings, silent = self._services.settings, self._services.stops.holds
        if silent(asked.channel_id) or (asked.parent_id is not None and silent(asked.parent_id)):
            return "A person wants silence here: /resume lifts it."
        ignored = Ignored(
            frozenset(settings.ignore_user_ids), frozenset(settings.ignore_role_ids), self._services.ignores
        )
        who = Heard(
            author_id=asked.who.user_id,
            by_person=True,
            author_roles=asked.who.roles,
            guild_id=asked.guild_id,
            channel_id=asked.channel_id,
        )
        if who in ignored:
            return "The bots do not listen to you here."
        user_id = self._services.directory.id_of(agent)
        if user_id is None:
            return f"{self._services.names[agent]} is not online."
        return CommandReply(question_text(user_id, prompt), public=True)

    async def _reset(self, asked: CommandInvocation) -> Response:
        chosen = self._agent(asked)
        if chosen is None and "agent" in asked.values:
            return UNKNOWN
        if asked.guild_id is not None and not asked.who.manages_messages:
            return RESETS
        await reset_conversation(
            self._services, [chosen] if chosen else self._services.names, asked.channel_id, asked.id
        )
        if asked.guild_id is None:
            return "I begin anew here: what was said so far is no longer context."
        who = self._services.names[chosen] if chosen else "Every bot"
        return f"{who} begins anew here: what was said so far is no longer context."

    # -- for the server's managers ------------------------------------------------------------------------------------

    async def _start(self, asked: CommandInvocation) -> str:
        chosen = asked.values.get("channel")
        channel_id = int(chosen) if chosen is not None else asked.parent_id or asked.channel_id
        where = f"<#{channel_id}>"
        if channel_id not in self._services.scope.channels or not self._is_here(channel_id, asked):
            return f"The bots do not converse in {where}: it is none of their channels."
        if self._services.stops.holds(channel_id):
            return STARTED["stopped"].format(where=where)
        theme = asked.values.get("theme")
        command = Command(command="start", channel_id=channel_id, theme=str(theme) if theme else None)
        outcome = await self._services.orders.give(command)
        return STARTED.get(outcome, "The coordinator did not do it: {outcome}.").format(where=where, outcome=outcome)

    async def _mute(self, asked: CommandInvocation) -> str:
        agent = self._agent(asked)
        if agent is None:
            return UNKNOWN
        seconds = _number(asked, "minutes", MUTE_MINUTES, LONGEST_MUTE) * 60.0
        await self._services.ledger.mutes.mute(agent, seconds)
        log.info("%s is muted by a person for %.0f minutes", agent, seconds / 60)
        return (
            f"{self._services.names[agent]} is muted for {lasting(seconds)}, in every channel; what it is saying at"
            " this moment it may finish. /bots unmute lifts it."
        )

    async def _unmute(self, asked: CommandInvocation) -> str:
        agent = self._agent(asked)
        if agent is None:
            return UNKNOWN
        lifted = await self._services.ledger.mutes.lift(agent)
        shown = self._services.names[agent]
        return f"{shown} may speak again." if lifted else f"{shown} was not muted."

    async def _ignore(self, asked: CommandInvocation) -> str:
        user_id = int(asked.values["user"])
        outcome = await self._services.ignores.add(user_id)
        texts = {
            "added": f"No bot hears <@{user_id}> any more, in every channel. /bots unignore lifts it.",
            "known": f"<@{user_id}> is ignored already.",
            "full": "The list of ignored people is full.",
        }
        return texts[outcome]

    async def _unignore(self, asked: CommandInvocation) -> str:
        user_id = int(asked.values["user"])
        if user_id in self._services.settings.ignore_user_ids:
            return f"<@{user_id}> is ignored by the setting IGNORE_USER_IDS; that is the owner's to change."
        removed = await self._services.ignores.remove(user_id)
        return f"The bots hear <@{user_id}> again." if removed else f"<@{user_id}> was not ignored."

    async def _show_file(self, asked: CommandInvocation) -> Response:
        agent, name = self._agent(asked) or "", str(asked.values.get("file", ""))
        return await self._files.show(agent, name, asked.channel_id, _number(asked, "back", 0, MOST_BACK))

    async def _edit_file(self, asked: CommandInvocation) -> Response:
        return await self._files.form(self._agent(asked) or "", str(asked.values.get("file", "")), asked.channel_id)

    async def _save_file(self, asked: CommandInvocation) -> Response:
        return await self._files.save(str(asked.values.get("id", "")), str(asked.values.get("text", "")))

    def _agent(self, asked: CommandInvocation) -> str | None:
        """The agent that the option names: one of the choices, while the list that Discord shows is fresh."""
        name = str(asked.values.get("agent") or asked.values.get("bot", ""))
        return name if name in self._services.names else None


def _number(asked: CommandInvocation, option: str, default: int, most: int) -> int:
    """Discord has checked it, for whoever uses Discord's own form."""
    value = asked.values.get(option, default)
    return min(max(int(value), 0), most)
