"""AgentHost: what one agent does with the messages, instructions and ticks that reach it.

    message ─────── triggers, commands ─┐
    instruction ────────────────────────┼─ queue ─ runner ─ take_turn ─ result on the bus
    automation, catch-up ───────────────┘

It needs an agent and its channels, no bot user: whatever listens on a service hands over what it heard as plain values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from agentic.agent.agent import Agent, Channels
from agentic.agent.services import AgentServices
from agentic.automation.automation import Automation
from agentic.chat.service import IncomingMessage, Person, PersonReaction
from agentic.context.commands import Order
from agentic.context.entries import Entry
from agentic.inbox.batching import belongs
from agentic.inbox.bot_mentions import BotMentions
from agentic.inbox.catch_up import CatchUp
from agentic.inbox.message_commands import MessageCommands, commanded
from agentic.inbox.missed_orders import MissedOrders
from agentic.inbox.mute_sign import MuteSigns
from agentic.inbox.queue import TurnQueue
from agentic.inbox.room_calls import RoomCalls
from agentic.inbox.stop_orders import StopOrders
from agentic.inbox.triggers import Call, Ignored, called, says_nothing
from agentic.record.hearers import Hearing
from agentic.turn.busy_replies import BusyReplies
from agentic.turn.runner import TurnRunner
from agentic.wire import keys
from agentic.wire.link import RedisAway
from agentic.wire.reading import read_instruction


class AgentHost:
    """One agent at work. `may_act` says whether this process holds its lease."""

    def __init__(
        self, agent: Agent, services: AgentServices, channels: Channels, *, may_act: Callable[[], bool]
    ) -> None:
        self.agent, self.name, self.ready = agent, agent.key, asyncio.Event()
        self._services, self._channels, self._may_act, self._closing = services, channels, may_act, False
        settings = services.settings
        self._ignored = Ignored(
            frozenset(settings.ignore_user_ids), frozenset(settings.ignore_role_ids), also=services.ignores
        )
        runner = TurnRunner(agent, services, channels, may_act=may_act)
        self.queue = TurnQueue(runner, services)
        self.automation = Automation(
            self.name, services, channels, self.queue, runner, ready=self.ready, may_act=may_act
        )
        runner.hooks = self.automation.hooks
        self._busy = BusyReplies(agent.reply_throttle)
        self._commands = MessageCommands(agent, services, channels, self.queue, self._busy)
        self._room_calls = RoomCalls(self.name, services)
        self.bot_mentions = BotMentions(agent, services, channels, self.queue, self._room_calls)
        self._stop_orders = StopOrders(services, channels, self.queue)
        self._mute_signs = MuteSigns(services, channels)
        self._missed_orders = MissedOrders(
            self.name, services, channels, self._stop_orders, self._mute_signs, self._call_of
        )
        self.catch_up = CatchUp(
            self.name,
            services,
            channels,
            self.queue,
            self._missed_orders,
            self._pending_call,
            self._room_calls,
            may_act=may_act,
        )

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The agent's channels can be reached: take instructions."""
        self._services.bus.subscribe(keys.instructions(self.name), self.on_instruction)
        self._services.cancels.on_cancel(self.name, self.on_cancel)
        self._services.hearers.add(self.name, self.hearing)
        self.ready.set()

    async def run_catch_up(self) -> None:
        """Continue the turns that were left open and answer what was missed, until cancelled."""
        await self.ready.wait()
        await self.catch_up.run()

    async def run_automation(self) -> None:
        """Run heartbeats, cron jobs and the startup hook, until cancelled."""
        await self.ready.wait()
        await self.automation.run()

    def stop_listening(self) -> None:
        """Take nothing more in; running turns continue."""
        self._closing = True
        self._services.bus.unsubscribe(keys.instructions(self.name))
        self._services.cancels.off(self.name, self.on_cancel)
        self.automation.stop()
        self.queue.close()

    async def drain(self) -> None:
        """Return when the running turns and the shutdown hook have ended; what waited is kept."""
        await self.queue.keep_waiting()
        await asyncio.gather(self.queue.inbox.drain(), self.automation.shutdown())

    async def aclose(self) -> None:
        """Take nothing more in and cancel what runs."""
        self.stop_listening()
        self._missed_orders.stop()
        self._stop_orders.stop()
        await self.queue.keep_waiting()
        await self.queue.inbox.aclose()
        await self._busy.aclose()
        self._services.message_log.flush()  # what was said a moment ago, while it is known who hears it
        self._services.hearers.remove(self.name, self.hearing)

    # -- what is heard ------------------------------------------------------------------------------------------------

    @property
    def holds_lease(self) -> bool:
        """Whether this process acts for the agent, perhaps until it stops in a moment."""
        return self._may_act()

    @property
    def acts(self) -> bool:
        """Whether this process acts for the agent, and is not about to stop."""
        return not self._closing and self._may_act()

    async def on_order(self, order: Order, heard: IncomingMessage, wrote: Callable[[], Person], said_at: float) -> bool:
        """Carry out a person's stop or resume; False where the message is none for our bots. Needs no lease: silence is
        never wrong, and the process that acts for the agent now may not have heard the order."""
        return await self._stop_orders.on_message(
            order, heard, self._call_of(heard), wrote, said_at=said_at, late=not self._may_act()
        )

    async def on_reaction(self, reaction: PersonReaction) -> None:
        """A stop sign at one of our bots' messages is an order too, and so is 🔕 at one that nobody asked for."""
        await self._stop_orders.on_reaction(reaction)
        await self._mute_signs.on_reaction(reaction)

    async def on_bot_message(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        """Another bot wrote a message, or edited one."""
        if self.acts:
            await self.bot_mentions.heard(channel_id, message_id, theme, edited=edited)

    async def on_message(self, heard: IncomingMessage, theme: str) -> None:
        """A person wrote something that is no order."""
        if not (self.acts or (self.holds_lease and heard.is_private)):  # a private chat may have no past to read
            self.catch_up.missed_message()
            return
        if heard in self._ignored:
            return
        call, transcript = self._call_of(heard), self._services.transcripts.of(heard.channel_id)
        if call is Call.ALL and await self._is_in_room(heard):
            call = None
        asked, named = transcript.get(heard.message_id), None if call is Call.ALL else call
        if self._channels.is_stopped(heard.channel_id):
            if named is not None or (asked is not None and commanded(asked, transcript.entries()) == self.name):
                await self._stop_orders.show_stopped(heard)
        elif asked is None or says_nothing(asked, heard, call):  # deleted meanwhile, or blank
            return
        elif asked.hidden:  # it calls nobody, but may be a command
            await self._commands.on_message(asked, heard.channel_id, theme, named)
        else:
            room = await self._room_calls.room_of(heard.channel_id, heard.parent_id) if call is not None else None
            theme = theme if room is None else room.theme
            if room is not None and room.status == "active":
                if call is Call.REPLY and self._is_to_notice(asked, heard.channel_id):
                    call = None
                else:
                    self._services.person_notices.note(asked, heard.channel_id, calls=True)
                    if await self._room_calls.take_turn(room, asked):
                        return
            self._on_words(asked, heard.channel_id, theme, call, is_private=heard.is_private)

    def _is_to_notice(self, asked: Entry, channel_id: int) -> bool:
        """Whether it replies to a line of the program's in a thread, such as that a room waits for a name."""
        if asked.reply_to is None or self._channels.parent(channel_id) is None:
            return False
        replied = self._services.transcripts.of(channel_id).get(asked.reply_to)
        return replied is not None and replied.hidden

    def _on_words(self, asked: Entry, channel_id: int, theme: str, call: Call | None, *, is_private: bool) -> None:
        """More of a question that waits, or a call; the coordinator is given notice of it in the background."""
        if asked.order is None and asked.speaker.kind == "person":
            to_notice = call is None and self._is_to_notice(asked, channel_id)
            self._services.person_notices.note(asked, channel_id, calls=call is not None, to_notice=to_notice)
        gathers = call is not None or belongs(asked, self._services.directory)
        if (gathers and self.queue.gather(channel_id, asked, calls=call is not None)) or call is None:
            return
        event = self._services.mention(asked, channel_id, theme, to_all=call is Call.ROLE, unaddressed=call is Call.ALL)
        if is_private:  # it may wait for the answer before it, and has all its time then
            event = replace(event, seconds=self._services.settings.turn_timeout_seconds)
        if self.queue.enqueue(event) or event.id in self.queue:
            return
        if (outlet := self._channels.outlet_of(channel_id)) is not None:
            self._busy.reply(outlet.sink, event)

    async def on_instruction(self, raw: str) -> None:
        """Give every readable instruction exactly one result; one that is repeated gets the same."""
        if self.acts and (read := read_instruction(raw)) is not None:
            await self.queue.instruct(read)

    async def on_cancel(self, instruction_id: str) -> None:
        """A person writes, so this turn of an idle task ends. Needs no lease: silence is never wrong."""
        await self.queue.cancel(instruction_id, "person_wrote")

    def hearing(self, channel_id: int) -> Hearing | None:
        """The agent's options in a channel that it hears; None for another one."""
        view = self._channels.view_of(channel_id)
        if view is None:
            return None
        parent = self._channels.parent(channel_id)
        if view.guild_id is not None and self._services.scope.theme(channel_id, parent, view.guild_id) is None:
            return None
        options = self.agent.options.options(self.name, view)
        return Hearing(agent=self.name, options=options, guild_id=view.readers_id, service=view.service.key)

    # -- what a message means -----------------------------------------------------------------------------------------

    def _call_of(self, heard: IncomingMessage) -> Call | None:
        """Whether and how a message calls this agent."""
        me = self._channels.own_id(heard.channel_id)
        if me is None:
            return None
        call = called(heard, me=me, bots_role=self._services.settings.bots_role_id)
        return Call.ALL if call is None and heard.author_id != me and self._answers_all(heard) else call

    def _answers_all(self, heard: IncomingMessage) -> bool:
        """Whether a message that does not call the agent is for it all the same: a person's, for no other agent, in a
        channel where it is the first agent with `answer_all`."""
        directory, view = self._services.directory, self._channels.view_of(heard.channel_id)
        others = {*heard.mentioned_users, heard.replied_to or 0}
        if not heard.by_person or view is None or any(directory.agent_of(user) is not None for user in others):
            return False
        here = (name for name in self._services.names if name == self.name or directory.id_of(name) is not None)
        answering = (name for name in here if self._services.options.options(name, view).answer_all)
        return next(answering, None) == self.name

    async def _is_in_room(self, heard: IncomingMessage) -> bool:
        """Whether the thread is a room's, in which everybody has turns; also if that cannot be read."""
        if heard.parent_id is None:
            return False
        try:
            return await self._services.ledger.rooms.read(heard.channel_id) is not None
        except RedisAway:
            return True

    def _pending_call(self, heard: IncomingMessage, said: Entry) -> Call | None:
        """How a missed message calls the agent; None where it is not to be answered: an order, what was said before
        one, or in a stopped channel."""
        call = self._call_of(heard)
        if self._channels.is_stopped(heard.channel_id) or heard in self._ignored:
            return None
        if call is Call.ALL and heard.parent_id is not None:  # it may be a room
            return None
        if says_nothing(said, heard, call):
            return None
        orders = self._stop_orders
        return None if orders.is_order(said.order, heard, call) or orders.ended(said, heard) else call
