"""BaseAgentCog: one agent's ears on Discord and Redis. It receives events and decides nothing.

    gateway message ─ listening.py ─ triggers.py ─┐
                                                  ├─ taking.py ─ turn.py ─ result on the bus
    instruction on the bus ───────────────────────┘

A new agent is a subclass with `_call_ai` and `_generate_image`, and a row in agent_config.AGENTS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import discord

from agent_cogs.agent import shown_nowhere
from agent_cogs.arrears import Arrears
from agent_cogs.busy import BusyLines
from agent_cogs.calling import Calling
from agent_cogs.errands import Errands
from agent_cogs.events import MentionEvent
from agent_cogs.gathering import belongs, gather
from agent_cogs.house import House
from agent_cogs.m_commands import MCommands
from agent_cogs.notices import tell_owner
from agent_cogs.outfit import outfit
from agent_cogs.placing import Known
from agent_cogs.showing import Spot, ToolShow
from agent_cogs.stopping import Stopping
from agent_cogs.taking import TurnTaker
from agent_cogs.triggers import Call, Ignored, called
from agent_config import AgentSettings
from agent_context.commands import parse_m
from agent_context.entries import Entry
from agent_discord.asking import asked_for
from agent_discord.channels import GuildChannel
from agent_discord.direct import DirectMessages
from agent_discord.gate import Gate
from agent_discord.heard import Heard
from agent_discord.listening import heard, parent_of
from agent_discord.listening_cog import ListeningCog
from agent_discord.lookout import troubles
from agent_discord.outlet import Channel, DiscordOutlet
from agent_discord.places import guild_id_of
from agent_discord.rights import signed, who_wrote
from agent_discord.threads import threads_to_read
from agent_discord.webhooks import Face
from agent_llm.model import Model
from agent_llm.types import Drawing, Message, Prompt, Reply
from agent_protocol import keys
from agent_protocol.messages import read_instruction

GUILD_WAIT = 5.0  # seconds: after a new session channels are unknown until their guild has come

log = logging.getLogger(__name__)


class BaseAgentCog(ListeningCog):
    """One agent. `model` is what its subclass's methods call; `may_act` says whether this process holds its lease."""

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
        house: House,
        model: Model,
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(bot, house.transcripts)
        self.bot, self.settings, self.house, self.model = bot, settings, house, model
        self.name = settings.spec.name
        self.ready = asyncio.Event()
        self.gate = Gate(shared=house.way_out)
        self.may_act = may_act
        self._show = ToolShow(house.webhooks, self.gate, self._spot) if house.webhooks is not None else None
        show = self._show or shown_nowhere
        self.agent = outfit(settings, house, model, self._think, self._generate_image, show, bot.get_channel)
        self._guild_came = asyncio.Event()
        find = self._outlet_in_scope
        self._taker = TurnTaker(
            self.agent, house, may_act=may_act, silent=self._silent, find=find, tell=self._tell_owner
        )
        self._stopping = Stopping(self.name, house, self._taker.running, self._taker.end, find, self._parent)
        self._arrears = Arrears(self, self._taker)
        self.errands = Errands(self, self._taker)
        self._busy = BusyLines(self.agent.told)
        self._m = MCommands(self.agent, self._taker, self._busy.tell)
        self._calling = Calling(
            self.agent, house, self._taker, me=self._me, outlet_of=self._outlet_of, silent=self._silent
        )
        shared = house.settings
        self._ignored = Ignored(
            frozenset(shared.ignore_user_ids), frozenset(shared.ignore_role_ids), also=house.ignores
        )
        self._direct = DirectMessages()
        self._closing = False

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """One completion. Raises agent_llm.errors.ModelError."""
        raise TypeError(f"{type(self).__name__} has no _call_ai()")

    async def _generate_image(self, prompt: str) -> Drawing:
        """One picture. Raises agent_llm.errors.ModelError, CannotDraw where the provider has none."""
        raise TypeError(f"{type(self).__name__} has no _generate_image()")

    async def _think(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        """The model's answer, redacted where it arrives: it is kept in Redis as well as posted."""
        reply = await self._call_ai(prompt, history)
        return replace(reply, text=self.gate.clean(reply.text))

    # -- life ---------------------------------------------------------------------------------------------------------

    @discord.Cog.listener()
    async def on_ready(self) -> None:
        """Also after each new session: messages may have come in between."""
        assert self.bot.user is not None
        self.house.directory.learn(self.name, self.bot.user.id)
        self._guild_came.set()
        for channel in self.channels():
            outlet = self._outlet(channel)
            self.house.fetcher.catch_up(channel.id, channel.last_message_id, outlet.read_page, outlet.read_pins)
        self._arrears.came_back()
        if not self.ready.is_set():
            self.house.bus.subscribe(keys.instructions(self.name), self.on_instruction)
            self.ready.set()
            servers = len(self.bot.guilds)
            log.info(
                "%s is online as %s, in %d %s",
                self.name,
                self.bot.user,
                servers,
                "server" if servers == 1 else "servers",
            )
            scope = self.house.scope
            for trouble in troubles(self.bot, scope.channels, scope.guild_ids, self._outlet):
                log.warning("%s %s", self.name, trouble)

    @discord.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._guild_came.set()

    @discord.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        self._guild_came.set()

    def stop_listening(self) -> None:
        """Takes nothing more in and drops what waits; what runs goes on."""
        self._closing = True
        self.house.bus.unsubscribe(keys.instructions(self.name))
        self._taker.inbox.close()

    async def drain(self) -> None:
        """Returns when the turns that ran have ended, and the shutdown hook."""
        await asyncio.gather(self._taker.inbox.drain(), self.errands.shutdown())

    async def aclose(self) -> None:
        """Takes nothing more in and ends what runs."""
        self.stop_listening()
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
        found = (self.bot.get_channel(channel_id) for channel_id in self.house.scope.channels)
        channels = {channel.id: channel for channel in found if isinstance(channel, GuildChannel)}
        since = self.house.clock() - self.house.settings.mention_catchup_seconds
        for thread in threads_to_read(tuple(channels.values()), self.house.transcripts, since):
            channels.setdefault(thread.id, thread)
        return list(channels.values())

    def places(self) -> list[Known]:
        """The channels in scope, and their threads that are in use, with their names and themes."""
        found = ((channel, self._theme_of(channel)) for channel in self.channels())
        return [Known(channel.id, channel.name, theme) for channel, theme in found if theme is not None]

    # -- what Discord says --------------------------------------------------------------------------------------------

    @discord.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        theme = self._theme(message)
        if theme is None:
            return
        self._listener.message(message)
        if self._closing or not self.may_act() or self.bot.user is None:
            return
        question = asked_for(message, self.house.directory)
        if message.author.bot and question is None:
            await self._calling.heard(message.channel.id, message.id, theme)
            return
        self._direct.note(message.channel)
        facts = heard(message, question)
        call = self.call_of(facts)
        # A command's question is no order: it would have the rights of the bot that shows it.
        orders = question is None
        if orders and await self._stopping.written(message.content, facts, call, partial(who_wrote, message)):
            return
        if facts in self._ignored:
            return
        if self._silent(message.channel.id):
            if call is not None:
                await self._stopping.show_stopped(facts)
            return
        asked = self.house.transcripts.of(message.channel.id).get(message.id)
        if asked is None:  # deleted meanwhile
            return
        if asked.hidden:
            await self._commanded(asked, message.channel.id, theme, call)
            return
        more = None
        if call is not None or belongs(asked, self.house.directory):
            more = gather(self._taker.inbox, message.channel.id, asked, calls=call is not None, now=self.house.clock())
        if more is not None:
            self._taker.book.begin(more.id)
        elif call is not None:
            await self._called(message, asked, theme, call)

    async def _commanded(self, asked: Entry, channel_id: int, theme: str, call: Call | None) -> None:
        """A hidden message calls nobody; it may be a command."""
        command, outlet = parse_m(asked.text), self._outlet_of(channel_id)
        if command is not None and outlet is not None:
            directory = self.house.directory
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

    def call_of(self, heard: Heard) -> Call | None:
        """Whether and how a message calls this agent."""
        assert self.bot.user is not None
        guild = self.bot.get_guild(heard.guild_id) if heard.guild_id and heard.mentioned_roles else None
        my_role = guild.self_role.id if guild and guild.self_role else None
        return called(heard, me=self.bot.user.id, my_role=my_role, bots_role=self.house.settings.bots_role_id)

    def owes(self, heard: Heard) -> Call | None:
        """Whether a message that came while nobody listened is owed an answer."""
        stopped = self._silent(heard.channel_id)
        return None if stopped or heard in self._ignored else self.call_of(heard)

    def _theme(self, message: discord.Message) -> str | None:
        guild_id = message.guild.id if message.guild else None
        return self.house.scope.theme(message.channel.id, parent_of(message.channel), guild_id)

    async def _called(self, message: discord.Message, asked: Entry, theme: str, call: Call) -> None:
        event = MentionEvent.of(
            asked,
            channel_id=message.channel.id,
            theme=theme,
            to_all=call is Call.ROLE,
            now=self.house.clock(),
            seconds=self.house.settings.turn_timeout_seconds,
        )
        if self._taker.enter(event) or event.id in self._taker.book:
            return
        if outlet := self._outlet_of(event.channel_id):
            self._busy.tell(outlet, event)

    @discord.Cog.listener("on_raw_reaction_add")
    async def on_sign(self, event: discord.RawReactionActionEvent) -> None:
        """A reaction may be an order; the transcript has its own listener for it."""
        sign = signed(event, self.bot.get_channel(event.channel_id), self.house.transcripts)
        if sign is not None and self.may_act():
            await self._stopping.signed(sign)

    # -- what the coordinator says ------------------------------------------------------------------------------------

    async def on_instruction(self, raw: str) -> None:
        """Every readable instruction gets exactly one result; one that comes again gets the same."""
        if self._closing or not self.may_act():
            return
        read = read_instruction(raw)
        if read is not None:
            await self._taker.instructed(read)

    # -- where it speaks ----------------------------------------------------------------------------------------------

    def _outlet(self, channel: Channel) -> DiscordOutlet:
        house = self.house
        return DiscordOutlet(
            channel,
            gate=self.gate,
            transcripts=house.transcripts,
            fetcher=house.fetcher,
            pictures=house.pictures,
            names=house.names,
            may_post=lambda: self.may_act() and not self._silent(channel.id),
            may_remove=self.may_act,
            pasts=house.pasts,
        )

    def _outlet_of(self, channel_id: int) -> DiscordOutlet | None:
        channel = self.bot.get_channel(channel_id) or self._direct.of(channel_id)
        return self._outlet(channel) if isinstance(channel, Channel) else None

    def _spot(self, channel_id: int) -> Spot | None:
        """Where and as whom a call of a tool is shown, unless somebody else acts now or silence is wanted."""
        channel, me = self.bot.get_channel(channel_id), self.bot.user
        if not isinstance(channel, Channel) or me is None or not self.may_act() or self._silent(channel_id):
            return None
        return Spot(channel, Face(self.name, self.settings.display_name, self._avatar or me.display_avatar.url))

    @property
    def _avatar(self) -> str | None:
        """The picture that its own files give an address of."""
        named = self.settings.front.avatar
        return named if named is not None and named.startswith("https://") else None

    def _silent(self, channel_id: int) -> bool:
        """A person wants silence there."""
        return self._stopping.holds(channel_id)

    def _parent(self, channel_id: int) -> int | None:
        return parent_of(self.bot.get_channel(channel_id))

    async def _tell_owner(self, notice: str) -> None:
        await tell_owner(self._outlet_of(self.house.settings.owner_channel_id or 0), notice)

    async def _outlet_in_scope(self, channel_id: int) -> DiscordOutlet | None:
        channel = await self._find(channel_id)
        return None if channel is None else self._outlet(channel)

    async def _find(self, channel_id: int) -> Channel | None:
        """The channel, if it is in scope and the bot sees it; unknown is not forbidden while a guild is on its way."""
        channel = self.bot.get_channel(channel_id) or self._direct.of(channel_id)
        if channel is None and any(guild.unavailable for guild in self.bot.guilds):
            self._guild_came.clear()
            try:
                await asyncio.wait_for(self._guild_came.wait(), GUILD_WAIT)
            except TimeoutError:
                log.warning("%s: channel %d is not known, and its guild has not come", self.name, channel_id)
            channel = self.bot.get_channel(channel_id)
        if not isinstance(channel, Channel):
            return None
        output = self.house.settings.output_channel_id
        return channel if channel_id == output or self._theme_of(channel) is not None else None

    def _theme_of(self, channel: Channel) -> str | None:
        return self.house.scope.theme(channel.id, parent_of(channel), guild_id_of(channel))
