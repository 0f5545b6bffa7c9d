"""Conversations of the bots: start, next, end, pause; `/ask` and `/arena`; the console's actions, budgets, schedule.

What concerns conversations and the schedule goes to the coordinator as a Command, whose CommandOutcome is the answer;
stops, mutes and budgets are written to Redis here, with the same stores for Discord's commands and for the console. An
action of the console returns one line for the owner, or raises Refused with one. It may raise StateUnavailable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, time, timedelta

from agentic.actions.base import (
    MAX_ARENA_MINUTES,
    MAX_MUTE_MINUTES,
    MAX_STOP_MINUTES,
    MUTE_MINUTES,
    PAUSED,
    Act,
    ActionRequest,
    CommandReply,
    Done,
    Handle,
    IsHere,
    Request,
    Response,
    agent_in,
    agent_named,
    confirm,
    unknown_agent,
    unknown_value,
)
from agentic.actions.rooms import NOBODY_ANSWERS, RoomActions
from agentic.agent.services import Services
from agentic.chat.formatting import question_text
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, snowflake
from agentic.state.budgets import MAX_RAISE
from agentic.state.rooms import Arena
from agentic.state.silence import EVERYTHING, ChannelRef, Scope
from agentic.themes import THEMES
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC, Command

OUTCOMES: Mapping[str, str] = {
    "started": "Started a conversation in {where}.",
    "next started": "{agent} has a turn in {where}.",
    "requested": "{agent} speaks next in {where}, after the turn that is under way.",
    "ended": "The conversation in {where} has ended; a message that is being written may still appear.",
    "busy": "A conversation is already running in {where}.",
    "stopped": "The bots are stopped in {where}. Use /resume there first.",
    "paused": PAUSED,
    "muted": "{agent} is muted. Use /bots unmute first.",
    "unknown_channel": "{where} is not one of the coordinator's channels.",
    "none_running": "No conversation is running in {where}.",
    "no_agents": "No bot is available for a conversation.",
    "unknown_agent": "{agent} is not one of the coordinator's bots.",
    "offline": "{agent} is offline.",
    NOBODY: "The coordinator did not answer: it is not running, or busy. Nothing was done as far as I know.",
}
USUAL_MINUTES = 5  # of an arena
EMPTY = "The question is empty."
NO_HOST = "Arenas need a running `run_all.py`, and there is none. The owner can start it."
HAS_ONE = "An arena runs in this channel already. The next one can begin when its names are shown."
OPENED = "Two agents answer, without their names. Vote by 🅰️ or 🅱️; the names are shown when the time is over."
LATER = "Redis does not take it now: bots of other processes learn of this when it does."
# The outcomes of commands, for an owner. The first ones are what was wanted.
DONE: Mapping[str, str] = {
    "started": "{agent} begins in {channel}.",
    "next started": "{agent} has a turn in {channel}.",
    "requested": "{agent} speaks next in {channel}, after the turn that is under way.",
    "ended": "The conversation in {channel} has ended; a message that is being written may still appear.",
    "moved": "The conversation of {at} begins at {to} instead.",
    "skipped": "There will be no conversation at {at}.",
    "added": "A conversation begins at {at}.",
}
REFUSALS: Mapping[str, tuple[int, str]] = {
    "busy": (409, "a conversation is already running in {channel}"),
    "stopped": (409, "the bots are stopped in {channel}; press Resume there first"),
    "paused": (409, "all bots are paused; resume them first"),
    "muted": (409, "{agent} is muted until {at}"),
    "offline": (409, "{agent} is not online"),
    "none_free": (409, "no channel is free for a conversation"),
    "none_running": (409, "no conversation is running in {channel}"),
    "no_agents": (409, "the coordinator has no bots"),
    "unknown_agent": (404, "the coordinator does not know {agent}"),
    "unknown_channel": (404, "{channel} is not one of the bots' channels"),
    "no_such_time": (409, "{at} is no longer to come"),
    "move no_such_time": (409, "{at} is no longer to come, or {to} is taken already"),
    "known_time": (409, "a conversation is scheduled for {at} already"),
    "full_day": (409, "today's schedule is full; skip a time first"),
    "out_of_day": (400, "{to} is past, or not of today"),
    NOBODY: (503, NOBODY_ANSWERS),
}


class ConversationCommands:
    """`is_here` says whether a channel is in the server of the command."""

    def __init__(self, services: Services, is_here: IsHere) -> None:
        self._services, self._is_here = services, is_here

    async def start(self, command: ActionRequest) -> str:
        values = command.values
        theme_name = str(values.get("theme") or "")
        if theme_name and theme_name.strip().lower() not in THEMES:
            return unknown_value("theme", theme_name, [*THEMES])
        theme, topic = (str(values[name]) if values.get(name) else None for name in ("theme", "topic"))
        return await self._give(command, "start", "starter", theme=theme, topic=topic)

    async def next(self, command: ActionRequest) -> str:
        return await self._give(command, "next", "bot")

    async def end(self, command: ActionRequest) -> str:
        return await self._give(command, "end")

    async def pause(self, command: ActionRequest) -> str:
        await self._services.silence.stop(command.scopes("all")[0], source=f"c{command.id}")
        text = f"All bots are paused, {command.where}. Use /bots resume to lift it."
        return confirm(text, self._services.bus.ready.is_set())

    async def resume(self, command: ActionRequest) -> str:
        silence = self._services.silence
        resumed = await silence.resume_all(command.scopes("all"))
        text = "The bots resume." if resumed else "The bots were not paused."
        if silence.is_paused:
            text = "The bots' owner has paused all bots everywhere, so only the owner can resume them."
        return confirm(text, self._services.bus.ready.is_set())

    async def _give(self, command: ActionRequest, name: str, option: str = "", **fields: str | None) -> str:
        """Give a command for the chosen channel to the coordinator; `option` names a bot."""
        services, chosen = self._services, command.values.get("channel")
        channel_id = int(chosen) if chosen is not None else command.parent_id or command.channel_id
        written = str(command.values.get(option, ""))
        agent = (agent_named(written, services.names) or written) or None
        shown = {"where": f"<#{channel_id}>", "agent": services.names.get(agent or "", agent or "")}
        if channel_id not in services.scope.channels or not self._is_here(channel_id, command):
            return "{where} is not one of the bots' channels.".format(**shown)
        if agent is not None and agent not in services.names:
            return unknown_value("agent", agent, [*services.names.values()])
        place = ChannelRef(channel_id, guild_id=command.guild_id)
        silenced = services.silence.check(place, agent if name == "next" else None)
        if silenced is not None and name != "end":
            return OUTCOMES[silenced.kind].format(**shown)
        outcome = await services.orders.give(
            Command(command=name, channel_id=channel_id, agent_name=agent, **fields)  # type: ignore[arg-type]
        )
        text = OUTCOMES.get(f"{name} {outcome}") or OUTCOMES.get(outcome, "The coordinator refused: {outcome}.")
        return text.format(outcome=outcome, **shown)


class QuestionCommands:
    """`everyone` are the handlers, by command."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.everyone: Mapping[str, Handle] = {"ask": self.ask, "arena": self.arena}

    async def ask(self, command: ActionRequest) -> Response:
        """Post the question for everyone to see; it then counts as a message that mentions the agent."""
        agent, prompt = agent_in(command, self._services.names), str(command.values.get("prompt", ""))
        if agent is None:
            return unknown_agent(command, self._services.names)
        if not prompt.strip():
            return EMPTY
        if (refusal := self._refusal(command)) is not None:
            return refusal
        user_id = self._services.directory.id_of(agent)
        if user_id is None:
            return f"{self._services.names[agent]} is offline."
        return CommandReply(question_text(user_id, prompt), public=True)

    async def arena(self, command: ActionRequest) -> str:
        """Two hidden agents answer, within the limits on their calls and costs. Raises StateUnavailable."""
        if (refusal := self._refusal(command)) is not None:
            return refusal
        question, arenas = str(command.values.get("prompt", "")).strip(), self._services.state.coordination.arenas
        if not question:
            return EMPTY
        if not await arenas.has_host():
            return NO_HOST
        arena = Arena(
            id=command.id,
            channel_id=command.channel_id,
            guild_id=command.guild_id,
            parent_id=command.parent_id,
            question=self._services.redact(question),
            asked_by=command.who.user_id,
            minutes=min(max(int(command.values.get("minutes", USUAL_MINUTES)), 1), MAX_ARENA_MINUTES),
            at=self._services.clock(),
        )
        return OPENED if await arenas.open(arena) else HAS_ONE

    def _refusal(self, command: ActionRequest) -> str | None:
        """Why nobody may ask the bots here, or not this person; None if they may."""
        silenced = self._services.silence.check(command.place)
        if silenced is not None:
            return PAUSED if silenced.kind == "paused" else "The bots are stopped here. Use /resume first."
        is_ignored = self._services.ignored.has(command.who.user_id, command.who.roles, command.guild_id)
        return "The bots are set to ignore you." if is_ignored else None


class Actions:
    """`known` maps the name of an action to what carries it out."""

    def __init__(self, parts: ConsoleContext) -> None:
        self._parts = parts
        self.known: Mapping[str, Act] = {
            "start": self._start,
            "next": self._next,
            "end": self._end,
            "stop": self._stop,
            "resume": self._resume,
            "pause": self._pause,
            "go_on": self._go_on,
            "mute": self._mute,
            "unmute": self._unmute,
            "raise_budget": self._raise_budget,
            "move": self._move,
            "skip": self._skip,
            "add": self._add,
            **RoomActions(parts).known,
        }

    async def _start(self, asked: Request) -> Done:
        channel = None if asked.channel is None else self._channel(asked)
        agent = None if asked.agent is None else self._agent(asked)
        theme, topic = asked.theme or None, " ".join((asked.topic or "").split()) or None
        if theme is not None and theme not in THEMES:
            raise Refused(400, f"theme: expected one of {', '.join(THEMES)}")
        if topic is not None and len(topic) > MAX_TOPIC:
            raise Refused(400, f"topic: at most {MAX_TOPIC} characters")
        command = Command(command="start", channel_id=channel, agent_name=agent, theme=theme, topic=topic)
        if channel is not None:
            self._free_to_speak(channel)
        return await self._give(command, topic or "")

    async def _next(self, asked: Request) -> Done:
        channel, agent = self._channel(asked), self._agent(asked)
        self._free_to_speak(channel, agent)
        return await self._give(Command(command="next", channel_id=channel, agent_name=agent))

    async def _end(self, asked: Request) -> Done:
        return await self._give(Command(command="end", channel_id=self._channel(asked)))

    async def _stop(self, asked: Request) -> Done:
        channel, minutes = self._place(asked), _minutes(asked, MAX_STOP_MINUTES, MAX_STOP_MINUTES)
        await self._parts.silence.stop(Scope.channel(channel), minutes * 60.0, source=f"click-{asked.id}")
        until = self._clock(self._parts.clock() + minutes * 60.0)
        return self._done("stopped", f"The bots are silent in {self._shown(channel)} until {until}.", f"{minutes} min")

    async def _resume(self, asked: Request) -> Done:
        channel, silence = self._place(asked), self._parts.silence
        parents = {one.id: one.parent_id for one in self._parts.live.channels()}
        if (parent := parents.get(channel)) is not None and parent in silence.stopped_channels():
            raise Refused(409, f"the bots are stopped in all of {self._shown(parent)}; press Resume there first")
        resumed = await silence.resume_channel(channel, parents.get)
        still = " All bots are paused." if silence.is_paused else ""
        if not resumed:
            return self._done("not_stopped", f"The bots were not stopped in {self._shown(channel)}.{still}")
        return self._done("resumed", f"The bots may speak in {self._shown(channel)} again.{still}")

    async def _pause(self, asked: Request) -> Done:
        await self._parts.silence.stop(EVERYTHING, source=f"click-{asked.id}")
        return self._done("paused", "All bots are paused, in every channel and in direct messages.")

    async def _go_on(self, _: Request) -> Done:
        if not await self._parts.silence.resume(EVERYTHING):
            return self._done("not_paused", "The bots were not paused.")
        return self._done("went_on", "The bots resume.")

    async def _mute(self, asked: Request) -> Done:
        agent, minutes = self._agent(asked), _minutes(asked, MUTE_MINUTES, MAX_MUTE_MINUTES)
        await self._parts.silence.stop(Scope.agent(agent), minutes * 60.0, source=f"click-{asked.id}")
        until = self._clock(self._parts.clock() + minutes * 60.0)
        text = f"{self._name(agent)} is muted until {until}; it may finish a message that it is writing."
        return self._done("muted", text, f"{minutes} min")

    async def _unmute(self, asked: Request) -> Done:
        agent = self._agent(asked)
        if not await self._parts.silence.resume(Scope.agent(agent)):
            return self._done("not_muted", f"{self._name(agent)} was not muted.")
        return self._done("unmuted", f"{self._name(agent)} may speak again.")

    async def _raise_budget(self, asked: Request) -> Done:
        scope, dollars = asked.scope or "all", asked.dollars
        kind, _, of = scope.partition(":")
        known = {"agent": self._parts.names, "channel": {str(channel) for channel in self._parts.settings.channels}}
        if scope != "all" and of not in known.get(kind, ()):
            raise Refused(400, "scope: expected all, agent:NAME or channel:ID")
        if dollars is None or not 0 < dollars <= MAX_RAISE:
            raise Refused(400, f"dollars: expected a sum up to {MAX_RAISE:.0f} US dollars at once")
        today = f"{self._now():%Y-%m-%d}"
        try:
            cap = await self._parts.state.limits.budgets.raise_cap(scope, dollars, today, f"click-{asked.id}")
        except ValueError:
            raise Refused(409, "there is no limit to raise here; docs/costs.md says how to set one") from None
        return Done("raised", f"Today's limit is ${cap:.2f} now. Tomorrow it is as before.", f"{scope} +${dollars:.2f}")

    async def _move(self, asked: Request) -> Done:
        at, to = _at(asked), self._time(asked)
        return await self._give(Command(command="move", at=at, to=to), f"{self._clock(at)} to {self._clock(to)}")

    async def _skip(self, asked: Request) -> Done:
        at = _at(asked)
        return await self._give(Command(command="skip", at=at), self._clock(at))

    async def _add(self, asked: Request) -> Done:
        at = self._time(asked)
        return await self._give(Command(command="add", at=at), self._clock(at))

    async def _give(self, command: Command, detail: str = "") -> Done:
        """Give it to the coordinator. Raises Refused if it was not carried out."""
        outcome = await self._parts.orders.give(command)
        at, to = (self._clock(moment) if moment is not None else "" for moment in (command.at, command.to))
        fields = {
            "agent": self._name(command.agent_name) if command.agent_name else "A conversation",
            "channel": self._shown(command.channel_id) if command.channel_id is not None else "a free channel",
            "at": at,
            "to": to or at,
        }
        if (text := DONE.get(f"{command.command} {outcome}") or DONE.get(outcome)) is not None:
            return Done(outcome, text.format(**fields), detail)
        special = f"{command.command} {outcome}"
        raise _refuse(special if special in REFUSALS else outcome, **fields)

    def _done(self, outcome: str, text: str, detail: str = "") -> Done:
        """The end of an order that counts here at once, and in other processes when Redis is there."""
        return Done(outcome, f"{text} {LATER}" if self._parts.silence.is_out_of_sync else text, detail)

    def _free_to_speak(self, channel: int, agent: str | None = None) -> None:
        silenced = self._parts.silence.check(ChannelRef(channel), agent)
        if silenced is not None:
            fields = {"channel": self._shown(channel), "at": self._clock(silenced.until)}
            raise _refuse(silenced.kind, agent=self._name(agent) if agent is not None else "", **fields)

    def _channel(self, asked: Request) -> int:
        channel = snowflake(asked.channel or "", "channel")
        if channel not in self._parts.settings.channels:
            raise _refuse("unknown_channel", channel=self._shown(channel))
        return channel

    def _place(self, asked: Request) -> int:
        place = snowflake(asked.channel or "", "channel")
        return place if any(one.id == place for one in self._parts.live.channels()) else self._channel(asked)

    def _agent(self, asked: Request) -> str:
        if asked.agent is None or asked.agent not in self._parts.names:
            raise Refused(404, "there is no such agent")
        return asked.agent

    def _time(self, asked: Request) -> float:
        """The next moment at which the owner's clock shows that time, in unix seconds. Raises Refused."""
        try:
            wanted = time.fromisoformat(asked.time or "")
        except ValueError:
            raise Refused(400, "time: expected HH:MM") from None
        now = self._now()
        moment = datetime.combine(now.date(), wanted.replace(tzinfo=None), now.tzinfo)
        return (moment if moment > now else moment + timedelta(days=1)).timestamp()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._parts.clock(), self._parts.settings.timezone)

    def _clock(self, at: float) -> str:
        moment, now = datetime.fromtimestamp(at, self._parts.settings.timezone), self._now()
        return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%A %H:%M}"

    def _name(self, agent: str) -> str:
        return self._parts.names.get(agent, agent)

    def _shown(self, channel: int) -> str:
        return f"#{self._parts.live.names().get(channel, channel)}"


def _refuse(outcome: str, **fields: str) -> Refused:
    status, text = REFUSALS.get(outcome, (409, "the coordinator refused: {outcome}"))
    return Refused(status, text.format(outcome=outcome, **fields))


def _minutes(asked: Request, default: int, most: int) -> int:
    minutes = default if asked.minutes is None else asked.minutes
    if not 1 <= minutes <= most:
        raise Refused(400, f"minutes: expected a whole number from 1 to {most}")
    return minutes


def _at(asked: Request) -> float:
    if asked.at is None or not math.isfinite(asked.at) or not 0 < asked.at < 1e11:
        raise Refused(400, "at: expected a scheduled time in unix seconds")
    return asked.at
