"""AgentHost: what one agent does with the messages, instructions and ticks that reach it.

    message ─────── triggers, commands ─┐
    instruction ────────────────────────┼─ queue ─ runner ─ take_turn ─ result on the bus
    automation, catch-up ───────────────┘

It needs an agent and its channels, no bot account: whatever listens on a service hands over what it heard as plain
values. PersonaHosts hosts the personas without a bot, as the roster has them now:

    roster ── changes ── PersonaHosts ─┬─ PersonaHost  AgentHost, model, catch-up, back-off
    lease  ── held ────────────────────┴─ …            one for each persona that can speak

Personas that speak only in rooms have no clocks and hear nobody: their turns come by instruction. A persona with its
own account on another service hears people there, and the limits for bots apply to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agent_config import AgentSettings
from agentic.agent.agent import Agent, PersonaModel, build_agent
from agentic.agent.limits import share_backoff
from agentic.agent.services import Services
from agentic.automation.automation import Automation
from agentic.chat.heard import HeardMessage
from agentic.chat.service import AgentChannels, IncomingMessage, Person, PersonReaction
from agentic.context.entries import Entry
from agentic.inbox.catch_up import CatchUp
from agentic.inbox.inbox import TurnQueue, can_merge
from agentic.inbox.proposed_debates import ProposedDebates
from agentic.inbox.stop_orders import MissedOrders, OptOutReactions, StopOrders
from agentic.inbox.triggers import (
    BotMentions,
    Call,
    CallDetector,
    MessageCommands,
    find_commanded_agent,
    note_edit,
    note_reaction,
    replies_to_notice,
    request_room_turn,
    room_of_thread,
    says_nothing,
    withdraw_messages,
)
from agentic.llm.types import Model
from agentic.process.tasks import BackgroundTasks, cancel_and_wait, wait_at_most
from agentic.record.notes import ChannelReader
from agentic.state.leases import AnyLease
from agentic.tools.own_tools import ChannelAudience
from agentic.turn.result import BusyReplies
from agentic.turn.runner import TurnRunner
from agentic.wire import keys
from agentic.wire.connection import or_default
from agentic.wire.messages import read_instruction

LOOK_SECONDS = 1.0  # between two looks whether a bot is there, and whether every host is well

log = logging.getLogger(__name__)


class AgentHost:
    """Runs one agent. `lease` says whether this process acts for it."""

    def __init__(self, agent: Agent, services: Services, channels: AgentChannels, *, lease: AnyLease) -> None:
        self.agent, self.name, self.ready = agent, agent.key, asyncio.Event()
        self._services, self._channels, self._lease, self._closing = services, channels, lease, False
        runner = TurnRunner(agent, services, channels, lease=lease)
        self.queue = TurnQueue(runner, services)
        self.automation = Automation(self.name, services, channels, self.queue, runner, ready=self.ready, lease=lease)
        runner.hooks = self.automation.hooks
        self._busy = BusyReplies(agent.limits.replies)
        self._calls = CallDetector(self.name, services, channels)
        self._commands = MessageCommands(agent, services, channels, self.queue, self._busy)
        self.bot_mentions = BotMentions(agent, services, channels, self.queue)
        self._stop_orders = StopOrders(services, channels, self.queue)
        self._opt_outs = OptOutReactions(services, channels)
        self._debates = ProposedDebates(services, channels)
        obeying = self._stop_orders, self._opt_outs
        self._missed_orders = MissedOrders(self.name, services, channels, *obeying, self._calls)
        orders = self._stop_orders, self._missed_orders
        self.catch_up = CatchUp(self.name, services, channels, self.queue, *orders, self._calls, lease=lease)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._services.bus.subscribe(keys.instructions(self.name), self.on_instruction)
        self._services.agents.cancels.on_cancel(self.name, self.on_cancel)
        self._services.record.readers.add(self.name, self.channel_reader)
        self.ready.set()

    async def run_catch_up(self) -> None:
        await self.ready.wait()
        await self.catch_up.run()

    async def run_automation(self) -> None:
        await self.ready.wait()
        await self.automation.run()

    def background_work(self, *, automation: bool = True) -> dict[str, Coroutine[Any, Any, None]]:
        """Return the tasks that the agent needs on every service, by name; the caller owns them."""
        backoff, store = self.agent.models.main.backoff, self._services.state.coordination.backoffs
        work = {"catch-up": self.run_catch_up(), "provider back-off": share_backoff(self.name, backoff, store)}
        return work | ({"automation": self.run_automation()} if automation else {})

    def stop_listening(self) -> None:
        self._closing = True
        self._services.bus.unsubscribe(keys.instructions(self.name))
        self._services.agents.cancels.off(self.name, self.on_cancel)
        self.automation.stop()
        self.queue.close()

    async def drain(self) -> None:
        """Wait until the running turns and the shutdown hook have ended; waiting events are saved."""
        await self.queue.save_waiting()
        await asyncio.gather(self.queue.inbox.drain(), self.automation.shutdown())

    async def aclose(self) -> None:
        self.stop_listening()
        self._missed_orders.stop()
        self._stop_orders.stop()
        await self.queue.save_waiting()
        await self.queue.inbox.aclose()
        await self._busy.aclose()
        self._services.record.messages.flush()  # what was said a moment ago, while it is known who hears it
        self._services.record.readers.remove(self.name, self.channel_reader)

    # -- what is heard ------------------------------------------------------------------------------------------------

    @property
    def holds_lease(self) -> bool:
        """Return whether this process acts for the agent, perhaps until it stops in a moment."""
        return self._lease.is_held

    @property
    def acts(self) -> bool:
        """Return whether this process acts for the agent, and isn't about to stop."""
        return not self._closing and self._lease.is_held

    async def on_order(self, heard: HeardMessage, who: Person) -> bool:
        """Carry out a person's stop or resume; False if the message isn't an order for our bots. Needs no lease:
        silence is never wrong, and the process that acts for the agent may not have received the order."""
        facts, entry = heard.facts, heard.entry
        if entry.order is None:
            return False
        call, late = self._calls.detect(facts), not self._lease.is_held
        return await self._stop_orders.on_message(entry.order, facts, call, who, said_at=entry.created_at, late=late)

    async def on_reaction(self, reaction: PersonReaction) -> None:
        """Obey 🛑 on one of our bots' messages, 🔕 on an unprompted message, and 🎤 on a bot's question or a proposed
        debate. In a room, a person's message that people react to gets an answer."""
        await self._stop_orders.on_reaction(reaction)
        await self._opt_outs.on_reaction(reaction)
        await self._debates.on_reaction(reaction)
        if self.acts:
            await note_reaction(self._services, self._channels, reaction)

    async def on_deletion(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Let a room forget people's messages that were deleted."""
        if self.acts:
            await withdraw_messages(self._services, self._channels, channel_id, message_ids)

    async def on_edit(self, channel_id: int, said: Entry) -> None:
        """Let a room hear what a person's message became."""
        if self.acts:
            await note_edit(self._services, self._channels, channel_id, said)

    async def on_bot_message(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        if self.acts:
            await self.bot_mentions.heard(channel_id, message_id, theme, edited=edited)

    def may_concern(self, heard: HeardMessage) -> bool:
        """Return whether the agent may have to act on a person's message that another agent of the process also
        receives: an order, a command, a call of this agent, or a part of a question that waits for its turn."""
        entry, facts = heard.entry, heard.facts
        if not self.acts or not facts.by_person or entry.order is not None or entry.hidden:
            return True
        return bool(self.queue.inbox.waiting(facts.channel_id)) or self._calls.detect(facts) is not None

    async def on_message(self, heard: IncomingMessage, theme: str) -> None:
        """Act on a person's message that isn't an order."""
        channel_id, services = heard.channel_id, self._services
        if not (self.acts or (self.holds_lease and heard.is_private)):  # a private chat may have no past to read
            self.catch_up.missed_message()
            return
        if services.agents.ignored.has(heard.author_id, heard.author_roles, heard.guild_id):
            return
        call, transcript = self._calls.detect(heard), services.chats.transcripts.of(channel_id)
        is_thread, may_be_room = heard.parent_id is not None, services.state.coordination.rooms.may_exist
        if call is Call.ALL and is_thread and await may_be_room(channel_id):
            call = None  # in a room everyone has turns
        asked, named = transcript.get(heard.message_id), None if call is Call.ALL else call
        if services.silence.check(self._channels.place(channel_id)) is not None:
            commanded = find_commanded_agent(asked, transcript.entries()) if asked is not None else None
            if named is not None or commanded == self.name:
                await self._stop_orders.show_stopped(heard)
            return
        if asked is None or says_nothing(asked, heard, call):  # deleted meanwhile, or blank
            return
        if asked.hidden:  # it calls nobody, but may be a command
            await self._commands.on_message(asked, channel_id, theme, named)
            return
        room = await room_of_thread(services, channel_id, heard.parent_id) if call is not None else None
        theme = theme if room is None else room.theme
        if room is not None and room.status == "active":
            if call is Call.REPLY and replies_to_notice(services, asked, channel_id):
                call = None
            else:
                services.agents.person_notices.note(asked, channel_id, calls=True)
                if await request_room_turn(services, self.name, room, asked):
                    return
        if asked.order is None and asked.speaker.kind == "person":
            to_notice = call is None and replies_to_notice(services, asked, channel_id)
            services.agents.person_notices.note(asked, channel_id, calls=call is not None, to_notice=to_notice)
        is_more = call is not None or can_merge(asked, services.chats.directory)  # of a waiting question
        if (is_more and self.queue.merge_into_pending(channel_id, asked, calls=call is not None)) or call is None:
            return
        event = services.mention(asked, channel_id, theme, to_all=call is Call.ROLE, unaddressed=call is Call.ALL)
        if heard.is_private:  # it may wait for an earlier answer, and then has its full time
            event = replace(event, seconds=services.settings.turn_timeout_seconds)
        if self.queue.enqueue(event) or event.id in self.queue:
            return
        if (outlet := self._channels.outlet_of(channel_id)) is not None:
            self._busy.reply(outlet.sink, event)

    async def on_instruction(self, raw: str) -> None:
        """Give every readable instruction exactly one result; a repeated instruction gets the same result again."""
        if self.acts and (read := read_instruction(raw)) is not None:
            await self.queue.enqueue_instruction(read)

    async def on_cancel(self, instruction_id: str) -> None:
        """End this turn of a background task, because a person wrote. Needs no lease: silence is never wrong."""
        await self.queue.cancel(instruction_id, "person_wrote")

    def channel_reader(self, channel_id: int) -> ChannelReader | None:
        """Return the agent's options in a channel that it reads; None for other channels."""
        view = self._channels.view_of(channel_id)
        if view is None:
            return None
        parent = self._channels.place(channel_id).parent_id
        if view.guild_id is not None and self._services.chats.scope.theme(channel_id, parent, view.guild_id) is None:
            return None
        options = self.agent.options.options(self.name, view)
        return ChannelReader(agent=self.name, options=options, guild_id=view.readers_id, service=view.service.key)


@dataclass(frozen=True, slots=True)
class HostedChannels:
    """The channels in which a persona is hosted: the rooms that bots see, and with `is_heard` the chats of its own
    account. People write to it there, so it has clocks, and all limits apply. `lease` says whether this process acts
    for it."""

    channels: AgentChannels
    audience: ChannelAudience
    lease: AnyLease
    is_heard: bool = False


class PersonaHost:
    def __init__(self, settings: AgentSettings, services: Services, model: Model, hosted: HostedChannels) -> None:
        self.settings, self._model, self._is_heard = settings, model, hosted.is_heard
        self._tasks: list[asyncio.Task[None]] = []
        speaks = PersonaModel(model, services.chats.redact)
        agent = build_agent(settings, services, speaks, model, {}, audience=hosted.audience)
        agent = replace(agent, me=replace(agent.me, others=()))  # a room says who takes part
        if not hosted.is_heard:  # it speaks in rooms alone, which people open and which have a limit of turns
            agent = replace(agent, limits=agent.limits.budgets_alone())
        self.host = AgentHost(agent, services, hosted.channels, lease=hosted.lease)

    def start(self) -> None:
        """Take instructions, and continue open turns."""
        name, host = self.settings.name, self.host
        if self._is_heard:
            host.catch_up.missed_message()  # before there was this host, or while the one before it ended
        host.start()
        work = host.background_work(automation=self._is_heard)
        self._tasks = [asyncio.create_task(each, name=f"{name}: {what}") for what, each in work.items()]

    @property
    def failure(self) -> BaseException | None:
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception()) is not None), None)

    async def finish(self, seconds: float) -> None:
        """Let the running turns end, within this many seconds, and close."""
        self.host.stop_listening()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.host.queue.inbox.drain()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Cancel what runs; another process, or the next host, continues it."""
        await self.host.aclose()
        await cancel_and_wait(*self._tasks)
        await self._model.aclose()


class PersonaHosts:
    """Hosts every persona in the roster that can speak. `channels_of` returns where a persona is hosted now, or None;
    `prepare` is awaited before a persona's first turn."""

    def __init__(
        self,
        services: Services,
        make_model: Callable[[AgentSettings], Model],
        channels_of: Callable[[AgentSettings], HostedChannels | None],
        *,
        prepare: Callable[[str], Awaitable[None]],
    ) -> None:
        self._services, self._make_model, self._channels_of, self._prepare = services, make_model, channels_of, prepare
        self._hosts: dict[str, PersonaHost] = {}
        self._changing: set[str] = set()
        self._refused: dict[str, str | None] = {}
        self._changed = asyncio.Event()
        self._tasks = BackgroundTasks()
        services.agents.roster.on_change(self._changed.set)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    @property
    def agents(self) -> tuple[Agent, ...]:
        return tuple(hosted.host.agent for hosted in self._hosts.values())

    def host_of(self, key: str) -> AgentHost | None:
        return hosted.host if (hosted := self._hosts.get(key)) is not None else None

    async def run(self) -> None:
        while True:
            self._changed.clear()
            self._follow()
            await wait_at_most(self._changed, LOOK_SECONDS)

    def stop_listening(self) -> None:
        for hosted in self._hosts.values():
            hosted.host.stop_listening()

    def drains(self) -> Mapping[str, Coroutine[None, None, None]]:
        return {name: hosted.host.drain() for name, hosted in self._hosts.items()}

    async def aclose(self) -> None:
        await self._tasks.cancel()
        hosts, self._hosts = tuple(self._hosts.values()), {}
        await asyncio.gather(*(hosted.aclose() for hosted in hosts))

    def _follow(self) -> None:
        self._report()
        wanted = self._wanted()
        for key in {*wanted, *self._hosts} - self._changing:
            hosted = self._hosts.get(key)
            if hosted is not None and (error := hosted.failure) is not None:
                log.error("%s failed; restarting it", key, exc_info=error)
            elif (hosted.settings if hosted is not None else None) == wanted.get(key):
                continue
            self._changing.add(key)
            self._tasks.start(self._change(key), f"{key}: its persona")

    def _wanted(self) -> dict[str, AgentSettings]:
        """Return the personas that can speak and can be hosted somewhere. A hosted persona stays hosted."""
        personas = self._services.agents.roster.personas
        able = {one.key: one.settings for one in personas if one.settings is not None and one.why_not is None}
        return {key: of for key, of in able.items() if key in self._hosts or self._channels_of(of) is not None}

    def _report(self) -> None:
        """Log once why a persona isn't hosted. An agent of the table without token, number, and key isn't in use."""
        settings, known, self._refused = self._services.settings, self._refused, {}
        for key, why in ((one.key, one.why_not) for one in self._services.agents.roster.personas):
            if why is None or (key in settings.agents and key not in settings.account_agents):
                continue
            self._refused[key] = why
            if known.get(key) != why and key in settings.account_agents:  # somebody writes to it, and gets no answer
                log.error("%s can't answer anyone or join rooms: %s", key, why)
            elif known.get(key) != why and settings.on_discord:  # only Discord has rooms
                log.warning("%s can't join rooms: %s", key, why)

    @or_default(None, "personas whose settings changed wait")
    async def _change(self, key: str) -> None:
        """Close the persona's host, if there is one, and open a new one if the roster wants it by then."""
        try:
            if (old := self._hosts.pop(key, None)) is not None:
                await old.finish(self._services.settings.turn_timeout_seconds)
                log.info("%s: its persona changed", key)
            settings = self._wanted().get(key)
            if settings is not None and (channels := self._channels_of(settings)) is not None:
                await self._prepare(key)
                if (personas := self._services.agents.personas) is not None:
                    personas.of(key).hide_notes()
                hosted = PersonaHost(settings, self._services, self._make_model(settings), channels)
                hosted.start()
                self._hosts[key] = hosted
        finally:  # without Redis the next look tries again
            self._changing.discard(key)
