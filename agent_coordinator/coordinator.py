"""Coordinator: schedule, commands, notices in; conversations out; policies by name.

Which policy a conversation has: that of its room, else the one that the settings give its channel or theme.

The coordinator: schedule, commands and mention notices in, conversations out.

With a lease only one coordinator per Redis acts; the others stand by, and one takes over when the holder is gone. A
coordinator that loses the lease cancels its conversations immediately.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

from agent_coordinator.channels import ChannelBusy, pick_channel
from agent_coordinator.commands import Commands
from agent_coordinator.config import STARTUP_WAIT_SECONDS, CoordinatorConfig
from agent_coordinator.engine import Engine
from agent_coordinator.events import ConversationNotes, ConversationReport, PullNotes
from agent_coordinator.idle.background import BackgroundScheduler, IdleAsker
from agent_coordinator.idle.tasks import IdleStore
from agent_coordinator.policies.policy import ConversationPolicy, Speaker
from agent_coordinator.policies.pull import PullPolicy
from agent_coordinator.policies.rounds import Moderated, RoundRobin, Rounds
from agent_coordinator.reactive import Reactive
from agent_coordinator.rooms import RoomKeeper
from agent_coordinator.scheduler import Scheduler, plan_date
from agent_coordinator.state import ConversationState, Heard
from agentic.process.tasks import BackgroundTasks, Clock, Sleep
from agentic.state.leases import DEAD_HOLDER_SECONDS, Leadership, Lease
from agentic.state.record_stream import NoRecord, Notes
from agentic.state.shared_state import Ledger
from agentic.state.silence import Stops
from agentic.themes import theme_named
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import until_back
from agentic.wire.messages import Command, MentionNotice, PersonNotice, read

log = logging.getLogger(__name__)


class Policies:
    """The policies of an installation. A conversation keeps the policy with which it began, by name."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._speakers = tuple(
            Speaker(name, config.shown.get(name, name), config.talkativeness.get(name), config.interests.get(name, ()))
            for name in config.agents
        )

    def name_for(self, channel_id: int, theme: str) -> str:
        chosen = self._config.policies
        return chosen.get(str(channel_id)) or chosen.get(theme) or self._config.policy

    def of(self, state: ConversationState) -> ConversationPolicy:
        if state.room is None:
            return self._named(state.policy, self._speakers)
        members = (Speaker(each.name, each.shown, each.talkativeness, each.interests) for each in state.room.members)
        return self._named(state.policy, tuple(members), state.room.moderator, is_room=True)

    def _named(
        self, name: str, speakers: tuple[Speaker, ...], moderator: str | None = None, *, is_room: bool = False
    ) -> ConversationPolicy:
        """A name that this version does not know is that of `rounds`."""
        agents = tuple(speaker.name for speaker in speakers)
        rules = (agents, self._config.max_rounds, self._config.turn_delay_min, self._config.turn_delay_max)
        match name:
            case "round-robin":
                return RoundRobin(*rules)
            case "moderated":
                return Moderated(*rules, moderator)
            case "pull":
                return PullPolicy(*rules, speakers)
            case _ if is_room:  # everybody speaks once a round
                return Rounds(*rules)
            case _:
                return Rounds(
                    *rules, {each.name: each.talkativeness for each in speakers if each.talkativeness is not None}
                )


ONLINE_POLL_SECONDS = 0.25

FireIn = Callable[[int, str | None], Awaitable[ConversationReport | None]]


class Coordinator:
    """Without a `lease` this coordinator is the only one. `stops` knows the channels that people stopped, `record`
    takes notes of conversations and idle tasks, `idle_store` has what the latter are about."""

    def __init__(
        self,
        config: CoordinatorConfig,
        bus: Bus,
        ledger: Ledger,
        *,
        lease: Lease | None = None,
        clock: Clock = time.time,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
        stops: Stops | None = None,
        record: Notes | None = None,
        idle_store: IdleStore | None = None,
    ) -> None:
        rng = rng or random.Random()
        self._tasks = BackgroundTasks()
        self._leadership = Leadership(lease, sleep)
        policies, leadership = Policies(config), self._leadership
        self.engine = Engine(
            config, policies, bus, ledger, clock=clock, rng=rng, sleep=sleep, stops=stops, leadership=leadership
        )
        self.engine.observers.append(PullNotes(ledger.pulls, self._tasks.start))
        if record is not None:
            self.engine.observers.append(ConversationNotes(record))
        self.scheduler = Scheduler(config, ledger, clock=clock, rng=rng, sleep=sleep, leadership=self._leadership)
        self.reactive = Reactive(config, self.engine, ledger.schedule, clock=clock, rng=rng)
        self.idle = BackgroundScheduler(
            config,
            IdleAsker(bus, start=self._tasks.start, sleep=sleep),
            ledger,
            idle_store,
            record or NoRecord(),
            leadership=leadership,
            busy=lambda: self.engine.holds.busy,
            stops=stops,
            clock=clock,
            rng=rng,
            sleep=sleep,
        )
        self._config = config
        self._bus = bus
        self._ledger = ledger
        self._lease = lease
        self._stops = stops
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self.rooms = RoomKeeper(config, self.engine, ledger.rooms, start=self._tasks.start, sleep=sleep)
        self._commands = Commands(
            config,
            bus,
            self.engine,
            self.scheduler,
            self.rooms,
            ledger.presence,
            fire=self.fire,
            start=self._tasks.start,
            stops=stops,
        )
        self._acting = False
        self._fire_at_start = config.fire_on_startup

    @property
    def acting(self) -> bool:
        """False while standing by, and while another coordinator may lead."""
        return self._acting and self._leadership.held

    async def run(self) -> None:
        """Listen and act until cancelled; to be called once. Cancels its conversations before it returns."""
        for agent in self._config.agents:
            self._bus.listen_to(agent)
        self._bus.on_notice(self._on_notice)
        if self._stops is not None:
            self._stops.on_stop(self.engine.stop)
            self._stops.on_stop(self.idle.stopped)
        if self._lease is None:
            await self._act()
        else:
            await self._lead_and_stand_by(self._lease)

    async def fire(
        self,
        channel_id: int | None = None,
        theme: str | None = None,
        *,
        starter: str | None = None,
        topic: str | None = None,
        began: Callable[[int], object] | None = None,
    ) -> ConversationReport | None:
        """Run a conversation now, whatever the hour, as soon as this process leads.

        Without a channel the rotation picks one, of the given theme where a channel has it; without a starter the
        channel's queue names one, without a topic the starter does. None if there was none: the channel is unknown,
        busy or stopped, all bots are paused, or no channel is free. `began` is called with the channel once it starts.
        """
        if not self._config.agents:
            log.warning("no conversation: no agent is configured")
            return None
        if self._stops is not None and self._stops.paused:
            log.info("no conversation: all bots are paused")
            return None
        opening = partial(self._fire_in, starter=starter, topic=topic, began=began)
        theme = theme_named(theme).name if theme else None
        await self._leadership.until_held()
        if channel_id is None:
            return await self._fire_somewhere(theme, opening)
        if channel_id not in self._config.channels:
            log.warning("no conversation: channel %d is not one of the bots' channels", channel_id)
            return None
        if self._stopped(channel_id):
            log.warning("no conversation: a person stopped channel %d", channel_id)
            return None
        return await opening(channel_id, theme)

    # Pick a channel

    async def _fire_in(
        self,
        channel_id: int,
        theme: str | None,
        *,
        starter: str | None,
        topic: str | None,
        began: Callable[[int], object] | None,
    ) -> ConversationReport | None:
        theme = theme or self._config.theme_of(channel_id)
        try:
            return await self.engine.converse(channel_id, theme, starter=starter, topic=topic, began=began)
        except ChannelBusy as busy:
            log.info("no conversation: %s", busy)
            return None

    async def _fire_somewhere(self, theme: str | None, fire_in: FireIn) -> ConversationReport | None:
        tried: set[int] = set()
        while (channel_id := await self._free_channel(theme, tried)) is not None:
            tried.add(channel_id)
            if (report := await fire_in(channel_id, theme)) is not None:
                return report
        log.info("no conversation: no channel is free")
        return None

    async def _free_channel(self, theme: str | None, tried: set[int]) -> int | None:
        stopped = {channel for channel in self._config.channels if self._stopped(channel)}
        busy = self.engine.holds.busy | tried | stopped
        if fitting := [channel for channel, own in self._config.channels.items() if theme and own == theme]:
            return self._rng.choice([channel for channel in fitting if channel not in busy] or [None])
        hours = (self._config.active_start, self._config.active_end)
        date = plan_date(self._clock(), *hours, self._config.timezone).isoformat()
        return await until_back(
            lambda: pick_channel(self._config, self._ledger.schedule, date, busy, self._rng), self._sleep
        )

    def _stopped(self, channel_id: int) -> bool:
        return self._stops is not None and self._stops.holds(channel_id)

    # Act

    async def _act(self) -> None:
        # Only one acts, so a process that holds a channel now is dead; its hold would block the channel for minutes.
        await until_back(self._ledger.schedule.release_all_channels, self._sleep)
        left_over = await self.engine.unfinished.all()
        rooms = await self.rooms.left_over(left_over)
        self._leadership.begin()  # not before: a conversation that `fire` begins now must not count as left over
        self._acting = True
        # Not before: a sender counts who hears it, and sends again to nobody.
        self._bus.subscribe(keys.COORDINATOR_COMMANDS, self._on_command)
        self._bus.subscribe(keys.COORDINATOR_ACTIVITY, self._on_activity)
        self._tasks.start(self.idle.run(), "idle tasks")
        try:
            await self._continue([state for state in left_over if state.room is None], rooms)
            if self._fire_at_start:
                self._fire_at_start = False
                self._tasks.start(self._fire_when_two_are_online(), "the conversation at start")
            await self.scheduler.run(self._fire_scheduled)
        finally:
            self._acting = False
            self._bus.unsubscribe(keys.COORDINATOR_COMMANDS)
            self._bus.unsubscribe(keys.COORDINATOR_ACTIVITY)
            await self._tasks.cancel()

    async def _continue(self, left_over: list[ConversationState], rooms: list[ConversationState]) -> None:
        """Continue conversations and rooms of an earlier leader, or end them without a further turn."""
        for state in left_over:
            if self._config.resumes:
                self._tasks.start(self._resume(state), "an interrupted conversation")
            else:
                await self.engine.discard(state)
        for state in rooms:
            if self._config.resumes:
                self._tasks.start(self.rooms.go_on(state), f"the room in thread {state.channel_id}")
            else:
                await self.rooms.close(state)

    async def _resume(self, state: ConversationState) -> None:
        try:
            await self.engine.resume(state)
        except ChannelBusy as busy:
            log.warning("an interrupted conversation is not resumed: %s", busy)

    async def _fire_scheduled(self) -> None:
        self._tasks.start(self.fire(), "a scheduled conversation")

    async def _fire_when_two_are_online(self) -> None:
        needed = min(2, len(self._config.agents))
        for _ in range(round(STARTUP_WAIT_SECONDS / ONLINE_POLL_SECONDS)):
            online = await until_back(lambda: self._ledger.presence.online(self._config.agents), self._sleep)
            if len(online) >= needed:
                break
            await self._sleep(ONLINE_POLL_SECONDS)
        await self.fire()

    def _on_command(self, raw: str) -> None:
        command = read(Command, raw)
        if command is not None:  # `fire` waits where another coordinator may lead
            self._tasks.start(self._commands.execute(command), "a command")

    def _on_activity(self, raw: str) -> None:
        notice = read(PersonNotice, raw)
        if notice is None:
            return
        self.idle.person_wrote()
        if self.acting and not self._stopped(notice.channel_id):
            heard = Heard(
                notice.message_id, notice.text, notice.names, notice.replied_to, notice.calls, called=notice.called
            )
            self._tasks.start(self.engine.heard(notice.channel_id, heard), "a person's message")

    def _on_notice(self, notice: MentionNotice) -> None:
        self.idle.person_wrote()
        if self.acting and not self._stopped(notice.channel_id):
            self._tasks.start(self.reactive.join(notice), "a reactive round")

    # Lead or stand by

    async def _lead_and_stand_by(self, lease: Lease) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:  # a failure of the renewal must end the acting too
                tasks.create_task(lease.run(), name="coordinator's lease")
                tasks.create_task(self._act_while_leading(lease), name="coordinator")
        finally:
            await lease.release()

    async def _act_while_leading(self, lease: Lease) -> None:
        follows = not await until_back(lambda: lease.acquire(DEAD_HOLDER_SECONDS), self._sleep)
        if follows:
            log.info("another coordinator leads, this one stands by")
            self._fire_at_start = False  # a later takeover is not a start
        while True:
            await lease.taken.wait()
            if follows:
                self._bus.grant_grace()  # the bots of the old leader's process may be gone; their stand-bys log in now
            follows = True
            await self._act_until(lease.lost)
            log.warning("another coordinator took over, this one stands by")

    async def _act_until(self, lost: asyncio.Event) -> None:
        acting = asyncio.create_task(self._act(), name="acting coordinator")
        losing = asyncio.create_task(lost.wait(), name="coordinator's lease lost")
        try:
            await asyncio.wait((acting, losing), return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                acting.result()
        finally:
            acting.cancel()
            losing.cancel()
            await asyncio.gather(acting, losing, return_exceptions=True)
