"""The coordinator starts conversations: by schedule, by command, and after mentions.

With a lease, only one coordinator per Redis acts. The others stand by, and one of them takes over if the holder dies. A
coordinator that loses the lease cancels its conversations immediately.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agent_coordinator.channels import ChannelBusy, pick_channel
from agent_coordinator.commands import Commands
from agent_coordinator.config import STARTUP_WAIT_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.engine import Engine
from agent_coordinator.events import ConversationNotes
from agent_coordinator.idle.background import BackgroundScheduler
from agent_coordinator.policies.by_name import Policies
from agent_coordinator.reactive import Reactive
from agent_coordinator.rooms import RoomKeeper
from agent_coordinator.scheduler import Scheduler, plan_date
from agentic.process.tasks import cancel_and_wait
from agentic.record.idle_queries import IdleMemory
from agentic.state.conversation_state import ConversationState
from agentic.state.leases import DEAD_HOLDER_SECONDS, Lease
from agentic.state.talk import PersonMessage
from agentic.themes import theme_named
from agentic.wire import keys
from agentic.wire.messages import Command, MentionNotice, PersonNotice, read

log = logging.getLogger(__name__)

ONLINE_POLL_SECONDS = 0.25


class Coordinator:
    """`idle_store` has the material of background tasks; None if nothing is recorded."""

    def __init__(self, context: CoordinatorContext, idle_store: IdleMemory | None = None) -> None:
        self._context, self._tasks, self._leadership = context, context.tasks, context.leadership
        self.engine = Engine(context, Policies(context.config))
        self.engine.observers.append(ConversationNotes(context.record))
        self.scheduler = Scheduler(context)
        self.reactive = Reactive(context, self.engine)
        self.idle = BackgroundScheduler(context, idle_store, lambda: self.engine.locks.busy)
        self.rooms = RoomKeeper(context, self.engine)
        self._commands = Commands(context, self.engine, self.scheduler, self.rooms, self.start_conversation)
        self._acting = False
        self._starts_at_once = context.config.fire_on_startup

    @property
    def acting(self) -> bool:
        """False while standing by, and while another coordinator may lead."""
        return self._acting and self._leadership.is_held

    async def run(self) -> None:
        """Listen and act until canceled, then cancel the running conversations. Call it once."""
        bus, silence, lease = self._context.bus, self._context.silence, self._context.lease
        for agent in self._context.config.agents:
            bus.listen_to(agent)
        bus.on_notice(self._on_notice)
        if silence is not None:
            silence.on_change(self.engine.on_silence)
            silence.on_change(self.idle.on_silence)
        if lease is None:
            await self._act()
            return
        try:
            async with asyncio.TaskGroup() as tasks:  # a failure of the renewal must end the acting too
                tasks.create_task(lease.run(), name="coordinator's lease")
                tasks.create_task(self._act_while_leading(lease), name="coordinator")
        finally:
            await lease.release()

    async def _act_while_leading(self, lease: Lease) -> None:
        follows = not await self._context.wait_for_redis(lease.acquire, DEAD_HOLDER_SECONDS)
        if follows:
            log.info("another coordinator leads; standing by")
            self._starts_at_once = False  # a later takeover is not a start
        while True:
            await lease.taken.wait()
            if follows:  # the old leader's bots may be gone, too; their stand-ins log in now
                self._context.bus.grant_grace()
            follows = True
            acting = asyncio.create_task(self._act(), name="acting coordinator")
            losing = asyncio.create_task(lease.lost.wait(), name="coordinator's lease lost")
            try:
                await asyncio.wait((acting, losing), return_when=asyncio.FIRST_COMPLETED)
                if acting.done():
                    acting.result()
            finally:
                await cancel_and_wait(acting, losing)
            log.warning("another coordinator took over; standing by")

    async def _act(self) -> None:
        bus, config = self._context.bus, self._context.config
        # Only one coordinator acts, so a locked channel is a dead process's and would stay locked for minutes.
        await self._context.wait_for_redis(self._context.state.coordination.schedule.release_all_channels)
        await self._context.learn_servers()
        left_over = await self._context.wait_for_redis(self._context.state.coordination.conversations.kept)
        rooms = await self.rooms.left_over(left_over)
        self._leadership.begin()  # not earlier, or conversations begun meanwhile would look left over
        self._acting = True
        # Not earlier: a sender counts the subscribers that got its message and doesn't repeat it.
        bus.subscribe(keys.COORDINATOR_COMMANDS, self._on_command)
        bus.subscribe(keys.COORDINATOR_ACTIVITY, self._on_activity)
        self._tasks.start(self.idle.run(), "idle tasks")
        try:
            # Conversations and rooms of an earlier leader continue, or end without a further turn.
            for state in (each for each in left_over if each.room is None):
                if config.resumes:
                    self._tasks.start(self._resume(state), "an interrupted conversation")
                else:
                    await self.engine.discard(state)
            for state in rooms:
                if config.resumes:
                    self._tasks.start(self.rooms.resume(state), f"the room in thread {state.channel_id}")
                else:
                    await self.engine.write_room(state.ended("too_old"))
            if self._starts_at_once:
                self._starts_at_once = False
                self._tasks.start(self._start_when_two_are_online(), "the conversation at start")
            await self.scheduler.run(self._start_scheduled)
        finally:
            self._acting = False
            bus.unsubscribe(keys.COORDINATOR_COMMANDS)
            bus.unsubscribe(keys.COORDINATOR_ACTIVITY)
            await self._tasks.cancel()

    async def _resume(self, state: ConversationState) -> None:
        try:
            await self.engine.resume(state)
        except ChannelBusy as busy:
            log.warning("an interrupted conversation was not resumed: %s", busy)

    async def _start_scheduled(self) -> None:
        self._tasks.start(self.start_conversation(), "a scheduled conversation")

    async def _start_when_two_are_online(self) -> None:
        agents, presence = self._context.config.agents, self._context.state.coordination.presence
        for _ in range(round(STARTUP_WAIT_SECONDS / ONLINE_POLL_SECONDS)):
            if len(await self._context.wait_for_redis(presence.online, agents)) >= min(2, len(agents)):
                break
            await self._context.sleep(ONLINE_POLL_SECONDS)
        await self.start_conversation()

    # Notices and commands

    def _on_command(self, raw: str) -> None:
        if (command := read(Command, raw)) is not None:  # `start_conversation` waits while another coordinator may lead
            self._tasks.start(self._commands.execute(command), "a command")

    def _on_activity(self, raw: str) -> None:
        if (notice := read(PersonNotice, raw)) is None:
            return
        self.idle.person_wrote()
        if self.acting and self._context.silenced(notice.channel_id) is None:
            said, called, asks = (notice.message_id, notice.text, notice.names), notice.called, notice.asks
            message = PersonMessage(*said, notice.replied_to, notice.calls, called=called, asks=asks)
            self._tasks.start(self.rooms.hear(notice.channel_id, message), "a person's message")

    def _on_notice(self, notice: MentionNotice) -> None:
        self.idle.person_wrote()
        if self.acting and self._context.silenced(notice.channel_id) is None:
            self._tasks.start(self.reactive.join(notice), "a reactive round")

    # Start a conversation

    async def start_conversation(
        self,
        channel_id: int | None = None,
        theme: str | None = None,
        *,
        starter: str | None = None,
        topic: str | None = None,
        began: Callable[[int], object] | None = None,
    ) -> ConversationState | None:
        """Run a conversation now, at any hour, as soon as this process leads.

        Without a channel, the rotation picks one, with the given theme if a channel has it. Without a starter, the
        channel's queue names one; without a topic, the starter picks it. `began` is called with the channel once the
        conversation starts. Returns None if none ran: the channel is unknown, busy, or stopped, all bots are paused, or
        no channel is free.
        """
        theme = theme_named(theme).name if theme else None
        await self._leadership.wait_until_held()
        await self._context.learn_servers()
        if (refusal := self._context.refusal(channel_id)) is not None:
            where = "" if channel_id is None else f" in channel {channel_id}"
            log.info("no conversation%s: %s", where, refusal.replace("_", " "))
            return None
        tried: set[int] = set()
        while (place := channel_id or await self._free_channel(theme, tried)) is not None:
            tried.add(place)
            own_theme = theme or self._context.config.theme_of(place)
            try:
                return await self.engine.converse(place, own_theme, starter=starter, topic=topic, began=began)
            except ChannelBusy as busy:
                log.info("no conversation: %s", busy)
            if channel_id is not None:
                return None
        log.info("no conversation: no channel is free")
        return None

    async def _free_channel(self, theme: str | None, tried: set[int]) -> int | None:
        context, config = self._context, self._context.config
        stopped = {channel for channel in config.channels if context.silenced(channel) is not None}
        busy = self.engine.locks.busy | tried | stopped
        if fitting := [channel for channel, own in config.channels.items() if theme and own == theme]:
            return context.rng.choice([channel for channel in fitting if channel not in busy] or [None])
        date = plan_date(context.clock(), config.active_start, config.active_end, config.timezone).isoformat()
        schedule = context.state.coordination.schedule
        return await context.wait_for_redis(pick_channel, config, schedule, date, busy, context.rng)
