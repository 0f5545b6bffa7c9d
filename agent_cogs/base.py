"""BaseAgentCog: one agent's ears on Discord and Redis. It receives events and decides nothing.

    gateway message ─ listening.py ─ triggers.py ─┐
                                                  ├─ taking.py ─ turn.py ─ result on the bus
    instruction on the bus ───────────────────────┘

A new agent is a subclass with `_call_ai` and `_generate_image`, and a row in agent_config.AGENTS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import discord

from agent_chat.incoming import IncomingMessage
from agent_cogs.agent import ModelBinding, shown_nowhere
from agent_cogs.automation.runner import Errands
from agent_cogs.build_agent import bind_model, build_agent, called_model, calling
from agent_cogs.channels import AgentChannels, ChannelInfo, tell_owner
from agent_cogs.inbox.batching import belongs, gather
from agent_cogs.inbox.bot_mentions import Calling
from agent_cogs.inbox.busy_replies import BusyLines
from agent_cogs.inbox.catch_up import CatchUp
from agent_cogs.inbox.message_commands import MCommands, commanded
from agent_cogs.inbox.missed_orders import LateOrders
from agent_cogs.inbox.runner import TurnRunner
from agent_cogs.inbox.stop_orders import Stopping
from agent_cogs.inbox.triggers import Call, Ignored, called
from agent_cogs.services import AgentServices
from agent_cogs.tool_display import ToolShow
from agent_config import AgentSettings
from agent_context.entries import Entry
from agent_context.steering.commands import parse_m
from agent_discord.objects.channels import GuildChannel, parent_of
from agent_discord.objects.messages import command_question, incoming_message
from agent_discord.objects.permissions import author_of, person_reaction
from agent_discord.reading.gateway import TranscriptCog
from agent_discord.rest.gate import Gate
from agent_discord.startup_check import channel_problems
from agent_llm.types import Drawing, Message, Model, Prompt, Reply
from agent_protocol.wire import keys
from agent_protocol.wire.messages import read_instruction

log = logging.getLogger(__name__)


class BaseAgentCog(TranscriptCog):
    """One agent. `model` is what its subclass's methods call, `guild_models` what they call in the turns of a guild;
    `may_act` says whether this process holds its lease."""

    provider: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # py-cord's metaclass does not enforce abstract methods, so this does.
        super().__init_subclass__(**kwargs)
        for name in ("_call_ai", "_generate_image"):
            if getattr(cls, name) is getattr(BaseAgentCog, name):
                raise TypeError(f"{cls.__name__} must implement {name}()")

    def __init__(
        self,
        bot: discord.Bot,
        settings: AgentSettings,
        services: AgentServices,
        model: Model,
        guild_models: Mapping[int, Model] = MappingProxyType({}),
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(bot, services.transcripts)
        self.bot, self.settings, self.services, self._model = bot, settings, services, model
        self.name = settings.spec.name
        self.ready = asyncio.Event()
        self.gate = Gate(shared=services.outbound)
        self.may_act = may_act
        self.where = AgentChannels(settings, bot, services, self.gate, may_act=may_act, silent=self._silent)
        self._show = ToolShow(services.webhooks, self.gate, self.where.spot) if services.webhooks is not None else None
        show = self._show or shown_nowhere
        of_guilds = {guild: self._bound(settings.servers[guild], there) for guild, there in guild_models.items()}
        self.agent = build_agent(settings, services, self._bound(settings, model), of_guilds, show, bot.get_channel)
        find = self.where.outlet_in_scope
        self._taker = TurnRunner(
            self.agent, services, may_act=may_act, silent=self._silent, find=find, tell=self._tell_owner
        )
        self._stopping = Stopping(self.name, services, self._taker.running, self._taker.end, find, self.where.parent)
        self.late_orders = LateOrders(self, services, self._stopping, self.where.view_of)
        self._arrears = CatchUp(self, self._taker)
        self.errands = Errands(self, self._taker)
        self._busy = BusyLines(self.agent.reply_throttle)
        self._m = MCommands(self.agent, services, self._taker, self._busy.tell)
        self._calling = Calling(
            self.agent, services, self._taker, me=self._me, outlet_of=self.where.outlet_of, silent=self._silent
        )
        shared = services.settings
        self._ignored = Ignored(
            frozenset(shared.ignore_user_ids), frozenset(shared.ignore_role_ids), also=services.ignores
        )
        self._closing = False

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """One completion. Raises agent_llm.errors.ModelError."""
        raise TypeError(f"{type(self).__name__} has no _call_ai()")

    async def _generate_image(self, prompt: str) -> Drawing:
        """One picture. Raises agent_llm.errors.ModelError, CannotDraw where the provider has none."""
        raise TypeError(f"{type(self).__name__} has no _generate_image()")

    @property
    def model(self) -> Model:
        """What `_call_ai` and `_generate_image` call: in a turn the model of its server, else the agent's own."""
        return called_model() or self._model

    def _bound(self, settings: AgentSettings, model: Model) -> ModelBinding:
        return bind_model(settings, model, partial(self._think, model), partial(self._draw, model), self.services.clock)

    async def _think(self, model: Model, prompt: Prompt, history: Sequence[Message]) -> Reply:
        """The model's answer, redacted where it arrives: it is kept in Redis as well as posted."""
        with calling(model):
            reply = await self._call_ai(prompt, history)
        return replace(reply, text=self.gate.clean(reply.text))

    async def _draw(self, model: Model, prompt: str) -> Drawing:
        with calling(model):
            return await self._generate_image(prompt)

    # -- life ---------------------------------------------------------------------------------------------------------

    @discord.Cog.listener()
    async def on_ready(self) -> None:
        """Also after each new session: messages may have come in between."""
        assert self.bot.user is not None
        self.services.directory.learn(self.name, self.bot.user.id)
        self._catch_up()
        if not self.ready.is_set():
            self.services.bus.subscribe(keys.instructions(self.name), self.on_instruction)
            self.ready.set()
            servers = len(self.bot.guilds)
            log.info(
                "%s is online as %s, in %d %s",
                self.name,
                self.bot.user,
                servers,
                "server" if servers == 1 else "servers",
            )
            scope = self.services.scope
            for problem in channel_problems(self.bot, scope.channels, scope.guild_ids):
                log.warning("%s %s", self.name, problem)

    @discord.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._catch_up()

    @discord.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        self._catch_up()

    def _catch_up(self) -> None:
        """Looks for what was missed in the channels that are known by now; a guild may come late."""
        self.where.guild_came()
        if self.bot.user is None:
            return
        for channel in self.channels():
            view = self.where.view(channel)
            self.services.fetcher.catch_up(channel.id, channel.last_message_id, view.read_page, view.read_pins)
        self._arrears.came_back()

    def stop_listening(self) -> None:
        """Takes nothing more in; what runs goes on."""
        self._closing = True
        self.services.bus.unsubscribe(keys.instructions(self.name))
        self.errands.stop()
        self._taker.close()

    async def drain(self) -> None:
        """Returns when the turns that ran have ended, and the shutdown hook; what waited is kept."""
        await self._taker.keep_waiting()
        await asyncio.gather(self._taker.inbox.drain(), self.errands.shutdown())

    async def aclose(self) -> None:
        """Takes nothing more in and ends what runs."""
        self.stop_listening()
        self.late_orders.stop()
        await self._taker.keep_waiting()
        await self._taker.inbox.aclose()
        await self._busy.aclose()
        if self._show is not None:
            await self._show.aclose()

    async def attend(self) -> None:
        """Goes on with what was left open and answers what was missed, for as long as the bot runs."""
        await self.ready.wait()
        await self._arrears.run()

    async def run_errands(self) -> None:
        """What the agent does by itself, for as long as the bot runs."""
        await self.ready.wait()
        await self.errands.run()

    async def take_up(self) -> None:
        """Goes on with the turns that an earlier run of the program left open. Raises RedisAway."""
        await self._arrears.take_up()

    def channels(self) -> list[GuildChannel]:
        """Where something may have been missed: the channels in scope, then their threads that are in use."""
        return self.where.channels()

    def places(self) -> list[ChannelInfo]:
        """The same channels, with their names and themes."""
        return self.where.places()

    def arriving(self) -> bool:
        """Whether a server of the bot's is still on its way, with its channels."""
        return self.where.arriving

    async def wait_for(self, channel_id: int) -> None:
        """Waits for a channel whose server may be on its way."""
        await self.where.wait_for(channel_id)

    # -- what Discord says --------------------------------------------------------------------------------------------

    @discord.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        theme = self._theme(message)
        if theme is None:
            return
        self.record(message)
        if self.bot.user is None:
            return
        question = command_question(message, self.services.directory)
        if message.author.bot and question is None:
            if not self._closing and self.may_act():
                await self._calling.heard(message.channel.id, message.id, theme)
            return
        self.where.direct.note(message.channel)
        facts = incoming_message(message, question)
        call = self.call_of(facts)
        # A command's question is no order: it would have the rights of the bot that shows it.
        if question is None and await self._ordered(message, facts, call):
            return
        if self._closing or not self.may_act():
            self._arrears.missed_one()
            return
        if facts in self._ignored:
            return
        transcript = self.services.transcripts.of(message.channel.id)
        asked = transcript.get(message.id)
        if self._silent(message.channel.id):
            if call is not None or (asked is not None and commanded(asked, transcript.entries()) == self.name):
                await self._stopping.show_stopped(facts)
            return
        if asked is not None:  # else deleted meanwhile
            await self._said(asked, message.channel.id, theme, call)

    async def _ordered(self, message: discord.Message, facts: IncomingMessage, call: Call | None) -> bool:
        """Whether the message was an order. That needs no lease, and no program that goes on: silence is never wrong,
        and who acts for the agent now may not have heard it."""
        said_at, wrote, late = message.created_at.timestamp(), partial(author_of, message), not self.may_act()
        return await self._stopping.written(message.content, facts, call, wrote, at=said_at, late=late)

    async def _said(self, asked: Entry, channel_id: int, theme: str, call: Call | None) -> None:
        """A person's words: a command, more of a question that waits, or a call."""
        if asked.hidden:
            await self._commanded(asked, channel_id, theme, call)
            return
        more = None
        if call is not None or belongs(asked, self.services.directory):
            more = gather(self._taker.inbox, channel_id, asked, calls=call is not None, now=self.services.clock())
        if more is not None:
            self._taker.book.begin(more.id)
        elif call is not None:
            self._called(asked, channel_id, theme, call)

    async def _commanded(self, asked: Entry, channel_id: int, theme: str, call: Call | None) -> None:
        """A hidden message calls nobody; it may be a command."""
        command, outlet = parse_m(asked.text), self.where.outlet_of(channel_id)
        if command is not None and outlet is not None:
            directory = self.services.directory
            to_one = any(directory.agent_of(user_id) for user_id in (*asked.mentions, asked.replied_to or 0))
            await self._m.given(command, asked, outlet, theme, call=call, to_one=to_one)

    @discord.Cog.listener("on_raw_message_edit")
    async def on_grown(self, event: discord.RawMessageUpdateEvent) -> None:
        """Another agent's post may have come to its end; the transcript has its own listener."""
        if "content" in event.data and event.new_message.author.bot and not self._closing and self.may_act():
            theme = self._theme(event.new_message)
            if theme is not None and self.bot.user is not None:
                await self._calling.heard(event.channel_id, event.message_id, theme, edited=True)

    def _me(self) -> int:
        assert self.bot.user is not None
        return self.bot.user.id

    def call_of(self, heard: IncomingMessage) -> Call | None:
        """Whether and how a message calls this agent."""
        assert self.bot.user is not None
        guild = self.bot.get_guild(heard.guild_id) if heard.guild_id and heard.mentioned_roles else None
        my_role = guild.self_role.id if guild and guild.self_role else None
        return called(heard, me=self.bot.user.id, my_role=my_role, bots_role=self.services.settings.bots_role_id)

    def owes(self, heard: IncomingMessage, said: Entry) -> Call | None:
        """Whether a message that came while nobody listened is owed an answer: not an order, nor what was said before
        one, nor into the silence."""
        call = self.call_of(heard)
        if self._silent(heard.channel_id) or heard in self._ignored:
            return None
        return None if self._stopping.is_order(said.order, heard, call) or self._stopping.ended(said, heard) else call

    def _theme(self, message: discord.Message) -> str | None:
        guild_id = message.guild.id if message.guild else None
        return self.services.scope.theme(message.channel.id, parent_of(message.channel), guild_id)

    def _called(self, asked: Entry, channel_id: int, theme: str, call: Call) -> None:
        event = self.services.mention(asked, channel_id, theme, to_all=call is Call.ROLE)
        if self._taker.enter(event) or event.id in self._taker.book:
            return
        if outlet := self.where.outlet_of(event.channel_id):
            self._busy.tell(outlet.sink, event)

    @discord.Cog.listener("on_raw_reaction_add")
    async def on_sign(self, event: discord.RawReactionActionEvent) -> None:
        """A reaction may be an order; the transcript has its own listener for it."""
        sign = person_reaction(event, self.bot.get_channel(event.channel_id), self.services.transcripts)
        if sign is not None:
            await self._stopping.signed(sign)

    # -- what the coordinator says ------------------------------------------------------------------------------------

    async def on_instruction(self, raw: str) -> None:
        """Every readable instruction gets exactly one result; one that comes again gets the same."""
        if self._closing or not self.may_act():
            return
        read = read_instruction(raw)
        if read is not None:
            await self._taker.instructed(read)

    # -- what its parts ask of it --------------------------------------------------------------------------------------

    def _silent(self, channel_id: int) -> bool:
        """A person wants silence there."""
        return self._stopping.holds(channel_id)

    async def _tell_owner(self, notice: str) -> None:
        await tell_owner(self.where.outlet_of(self.services.settings.owner_channel_id or 0), notice)
