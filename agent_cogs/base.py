"""BaseAgentCog: the ears of one agent in Discord. It hands what it hears to its AgentHost and decides nothing.

A new agent is a subclass with `_call_ai` and `_generate_image`, and a row in agent_config.AGENTS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import discord

from agent_cogs.gateway import TranscriptCog
from agent_cogs.startup_check import channel_problems
from agent_config import AgentSettings
from agentic.agent.build_agent import build_agent, called_model
from agentic.agent.services import AgentServices
from agentic.context.stop_words import order_in
from agentic.inbox.host import AgentHost
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply
from agentic.services.discord.channels import parent_of
from agentic.services.discord.cogs_channels import AgentChannels
from agentic.services.discord.gate import Gate
from agentic.services.discord.messages import command_question, incoming_message
from agentic.services.discord.permissions import author_of, person_reaction
from agentic.services.discord.tool_display import ToolDisplay
from agentic.services.signal.channels import with_signal

log = logging.getLogger(__name__)


class BaseAgentCog(TranscriptCog):
    """The bot of one agent. Its subclass's methods call `model`, and one of `guild_models` in the turns of that guild;
    `may_act` says whether this process holds the agent's lease."""

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
        super().__init__(bot, services.transcripts, services.gateway_notes, settings.spec.name)
        self.bot, self.services, self._model = bot, services, model
        self.gate = Gate(shared=services.outbound)
        self.channels = AgentChannels(settings, bot, services, self.gate, may_act=may_act)
        self._tool_display = ToolDisplay(services.webhooks, self.gate, self.channels.spot)
        agent = build_agent(
            settings,
            services,
            model,
            guild_models,
            call_ai=self._call_ai,
            generate_image=self._generate_image,
            redact=self.gate.clean,
            show_tools=self._tool_display,
            channel_of=bot.get_channel,
        )
        channels = with_signal(settings.spec.name, self.channels, services, may_act)
        self.host = AgentHost(agent, services, channels, may_act=may_act)

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """One completion. Raises agentic.llm.errors.ModelError."""
        raise TypeError(f"{type(self).__name__} has no _call_ai()")

    async def _generate_image(self, prompt: str) -> Drawing:
        """One picture. Raises agentic.llm.errors.ModelError, CannotDraw where the provider has none."""
        raise TypeError(f"{type(self).__name__} has no _generate_image()")

    @property
    def model(self) -> Model:
        """The model that `_call_ai` and `_generate_image` call: in a turn that of its guild, else the agent's own."""
        return called_model() or self._model

    async def aclose(self) -> None:
        """Take nothing more in and cancel what runs."""
        await self.host.aclose()
        await self._tool_display.aclose()

    # -- the connection -----------------------------------------------------------------------------------------------

    @discord.Cog.listener()
    async def on_ready(self) -> None:
        """Also after each new session."""
        assert self.bot.user is not None
        self.services.directory.learn(self.host.name, self.bot.user.id)
        self._read_missed()
        if not self.host.ready.is_set():
            self.host.start()
            guilds, scope = len(self.bot.guilds), self.services.scope
            server = "server" if guilds == 1 else "servers"
            log.info("%s is online as %s, in %d %s", self.host.name, self.bot.user, guilds, server)
            for problem in channel_problems(self.bot, scope.channels, scope.guild_ids):
                log.warning("%s %s", self.host.name, problem)

    @discord.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._read_missed()

    @discord.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        self._read_missed()

    def _read_missed(self) -> None:
        """Fetch what was missed in the channels that are known by now; a guild may arrive late."""
        self.channels.guild_arrived()
        if self.bot.user is None:
            return
        for channel in self.channels.visible():
            view = self.channels.view(channel)
            self.services.fetcher.catch_up(channel.id, channel.last_message_id, view.read_page, view.read_pins)
        self.host.catch_up.came_back()

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
            await self.host.on_bot_message(message.channel.id, message.id, theme)
            return
        self.channels.direct.note(message.channel)
        facts = incoming_message(message, question)
        # A command's question is no order: it would have the rights of the bot that shows it.
        order = order_in(message.content) if question is None else None
        if order is not None:
            wrote, said_at = partial(author_of, message), message.created_at.timestamp()
            if await self.host.on_order(order, facts, wrote, said_at):
                return
        await self.host.on_message(facts, theme)

    @discord.Cog.listener("on_raw_message_edit")
    async def on_grown(self, event: discord.RawMessageUpdateEvent) -> None:
        """Another agent's post may be complete now; the transcript has its own listener."""
        if "content" in event.data and event.new_message.author.bot and self.bot.user is not None:
            theme = self._theme(event.new_message)
            if theme is not None:
                await self.host.on_bot_message(event.channel_id, event.message_id, theme, edited=True)

    @discord.Cog.listener("on_raw_reaction_add")
    async def on_stop_reaction(self, event: discord.RawReactionActionEvent) -> None:
        """A reaction may be an order; the transcript has its own listener."""
        reaction = person_reaction(event, self.bot.get_channel(event.channel_id), self.services.transcripts)
        if reaction is not None:
            await self.host.on_reaction(reaction)

    def _theme(self, message: discord.Message) -> str | None:
        guild_id = message.guild.id if message.guild else None
        return self.services.scope.theme(message.channel.id, parent_of(message.channel), guild_id)
