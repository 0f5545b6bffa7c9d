"""Carry out what an owner does from the console, and say what came of it.

What concerns conversations and the schedule goes to the coordinator as a Command, whose CommandOutcome is the answer;
stops, mutes and budgets are written to Redis here, with the same stores as Discord's commands. An action returns one
line for the owner, or raises Refused with one. It may raise RedisAway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, time, timedelta

from agentic.actions.asked import Act, Done, Request
from agentic.actions.room_actions import NOBODY_ANSWERS, RoomActions
from agentic.console.errors import Refused
from agentic.console.parts import ConsoleParts
from agentic.console.requests import snowflake
from agentic.state.budgets import LARGEST_RAISE
from agentic.state.stop_store import EVERYWHERE
from agentic.themes import THEMES
from agentic.wire.coordinator_commands import NOBODY
from agentic.wire.messages import MAX_TOPIC, Command

LONGEST_STOP, LONGEST_MUTE = 24 * 60, 7 * 24 * 60  # minutes, as in Discord
MUTE_MINUTES = 60
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


class Actions:
    """`known` maps the name of an action to what carries it out."""

    def __init__(self, parts: ConsoleParts) -> None:
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

    # conversations

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
        self._free_to_speak(channel)
        muted = await self._parts.ledger.mutes.read([agent])
        if agent in muted:
            raise Refused(409, f"{self._name(agent)} is muted until {self._clock(muted[agent])}")
        return await self._give(Command(command="next", channel_id=channel, agent_name=agent))

    async def _end(self, asked: Request) -> Done:
        return await self._give(Command(command="end", channel_id=self._channel(asked)))

    async def _stop(self, asked: Request) -> Done:
        channel, minutes = self._place(asked), _minutes(asked, LONGEST_STOP, LONGEST_STOP)
        await self._parts.stops.stop(channel, f"click-{asked.id}", minutes * 60.0)
        until = self._clock(self._parts.clock() + minutes * 60.0)
        return self._done("stopped", f"The bots are silent in {self._shown(channel)} until {until}.", f"{minutes} min")

    async def _resume(self, asked: Request) -> Done:
        channel, stops = self._place(asked), self._parts.stops
        parents = {one.id: one.parent_id for one in self._parts.live.channels()}
        if (parent := parents.get(channel)) is not None and parent in stops.held():
            raise Refused(409, f"the bots are stopped in all of {self._shown(parent)}; press Resume there first")
        threads = [other for other in stops.held() if parents.get(other) == channel]
        lifted = any([await stops.lift(stopped) for stopped in (channel, *threads)])
        still = " All bots are paused." if self._parts.stops.paused else ""
        if not lifted:
            return self._done("not_stopped", f"The bots were not stopped in {self._shown(channel)}.{still}")
        return self._done("resumed", f"The bots may speak in {self._shown(channel)} again.{still}")

    async def _pause(self, asked: Request) -> Done:
        await self._parts.stops.stop(EVERYWHERE, f"click-{asked.id}")
        return self._done("paused", "All bots are paused, in every channel and in direct messages.")

    async def _go_on(self, _: Request) -> Done:
        if not await self._parts.stops.lift(EVERYWHERE):
            return self._done("not_paused", "The bots were not paused.")
        return self._done("went_on", "The bots resume.")

    # agents and money

    async def _mute(self, asked: Request) -> Done:
        agent, minutes = self._agent(asked), _minutes(asked, MUTE_MINUTES, LONGEST_MUTE)
        until = await self._parts.ledger.mutes.mute(agent, minutes * 60.0)
        text = f"{self._name(agent)} is muted until {self._clock(until)}; it may finish a message that it is writing."
        return Done("muted", text, f"{minutes} min")

    async def _unmute(self, asked: Request) -> Done:
        agent = self._agent(asked)
        if not await self._parts.ledger.mutes.lift(agent):
            return Done("not_muted", f"{self._name(agent)} was not muted.")
        return Done("unmuted", f"{self._name(agent)} may speak again.")

    async def _raise_budget(self, asked: Request) -> Done:
        scope, dollars = self._scope(asked.scope or "all"), asked.dollars
        if dollars is None or not 0 < dollars <= LARGEST_RAISE:
            raise Refused(400, f"dollars: expected a sum up to {LARGEST_RAISE:.0f} US dollars at once")
        today = f"{self._now():%Y-%m-%d}"
        try:
            cap = await self._parts.ledger.budgets.raise_cap(scope, dollars, today, f"click-{asked.id}")
        except ValueError:
            raise Refused(409, "there is no limit to raise here; docs/costs.md says how to set one") from None
        return Done("raised", f"Today's limit is ${cap:.2f} now. Tomorrow it is as before.", f"{scope} +${dollars:.2f}")

    # today's schedule

    async def _move(self, asked: Request) -> Done:
        at, to = _at(asked), self._time(asked)
        return await self._give(Command(command="move", at=at, to=to), f"{self._clock(at)} to {self._clock(to)}")

    async def _skip(self, asked: Request) -> Done:
        at = _at(asked)
        return await self._give(Command(command="skip", at=at), self._clock(at))

    async def _add(self, asked: Request) -> Done:
        at = self._time(asked)
        return await self._give(Command(command="add", at=at), self._clock(at))

    # what they have in common

    async def _give(self, command: Command, detail: str = "") -> Done:
        """Give it to the coordinator. Raises Refused where it was not carried out."""
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
        raise Refused(*_refusal(special if special in REFUSALS else outcome, **fields))

    def _done(self, outcome: str, text: str, detail: str = "") -> Done:
        """The end of an order that counts here at once, and in other processes when Redis is there."""
        return Done(outcome, f"{text} {LATER}" if self._parts.stops.behind else text, detail)

    def _free_to_speak(self, channel: int) -> None:
        if self._parts.stops.paused:
            raise Refused(*_refusal("paused"))
        if self._parts.stops.holds(channel):
            raise Refused(*_refusal("stopped", channel=self._shown(channel)))

    def _channel(self, asked: Request) -> int:
        channel = snowflake(asked.channel or "", "channel")
        if channel not in self._parts.settings.channels:
            raise Refused(*_refusal("unknown_channel", channel=self._shown(channel)))
        return channel

    def _place(self, asked: Request) -> int:
        """A channel or a thread."""
        place = snowflake(asked.channel or "", "channel")
        return place if any(one.id == place for one in self._parts.live.channels()) else self._channel(asked)

    def _agent(self, asked: Request) -> str:
        if asked.agent is None or asked.agent not in self._parts.names:
            raise Refused(404, "there is no such agent")
        return asked.agent

    def _scope(self, scope: str) -> str:
        """Raises Refused for one that the day's budgets do not have."""
        kind, _, of = scope.partition(":")
        channels = {str(channel) for channel in self._parts.settings.channels}
        if scope == "all" or (kind == "agent" and of in self._parts.names) or (kind == "channel" and of in channels):
            return scope
        raise Refused(400, "scope: expected all, agent:NAME or channel:ID")

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


def _refusal(outcome: str, **fields: str) -> tuple[int, str]:
    status, text = REFUSALS.get(outcome, (409, "the coordinator refused: {outcome}"))
    return status, text.format(outcome=outcome, **fields)


def _minutes(asked: Request, default: int, most: int) -> int:
    minutes = default if asked.minutes is None else asked.minutes
    if not 1 <= minutes <= most:
        raise Refused(400, f"minutes: expected a whole number from 1 to {most}")
    return minutes


def _at(asked: Request) -> float:
    if asked.at is None or not math.isfinite(asked.at) or not 0 < asked.at < 1e11:
        raise Refused(400, "at: expected a scheduled time in unix seconds")
    return asked.at
