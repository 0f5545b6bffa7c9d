"""The cog of one agent: it hands Discord's events to its AgentHost and decides nothing.

A new agent is a subclass with `_call_ai` and `_generate_image`, and a row in agent_config.AGENTS.

All bots of a process write to the same transcripts, so each event arrives up to four times, which does no harm. A new
message is parsed once: py-cord builds a message, its author, and its member for the first bot that gets it. The other
bots use the result, and a bot that has nothing to do with the message starts no task. Each bot still only reacts to
events of its own connection, so its access in Discord decides. After a reconnect Discord repeats events, which are
handled the same way.

Our own agents' posts come back over the gateway, too. A post is in the shared transcript as soon as one bot has it,
from the answer to its request or from the first event. It matters to another bot only if it mentions or replies to that
bot, or is still being streamed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar

import discord

from agent_config import AgentSettings
from agentic.agent.agent import build_agent
from agentic.agent.services import Services
from agentic.chat.directory import NOBODY, clean_name
from agentic.chat.heard import HeardMessage
from agentic.chat.outlet import is_unfinished
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry
from agentic.inbox.host import AgentHost
from agentic.llm.types import Drawing, ImagePrompt, Message, Model, Prompt, Reply
from agentic.process.tasks import BackgroundTasks
from agentic.record.notes import GatewayNotes
from agentic.services.discord.channels import (
    Audience,
    Channel,
    GuildChannel,
    author_of,
    parent_of,
    permissions_in,
    person_reaction,
    refusal_in,
)
from agentic.services.discord.gate import Gate
from agentic.services.discord.messages import (
    command_question,
    incoming_message,
    replied_messages,
    to_entries,
    to_entry,
)
from agentic.services.discord.service import DiscordChannels, DiscordService
from agentic.services.discord.webhooks import ToolDisplay
from agentic.state.leases import ALWAYS_HELD, AnyLease
from agentic.text import counted

log = logging.getLogger(__name__)

MAX_HEARD = 200  # messages remembered; a bot gets a message at most seconds later than another bot


class TranscriptCog(discord.Cog):
    """Records edits, deletions, pins, and reactions. The subclass passes new messages to `record`, because it knows
    which channels matter. `listener` is told about deletions, and about reactions in the name of `agent`."""

    def __init__(
        self, bot: discord.Client, transcripts: Transcripts, listener: GatewayNotes | None = None, agent: str = ""
    ) -> None:
        self._client, self._transcripts = bot, transcripts
        self._listener, self._agent = listener, agent

    def record(self, message: discord.Message) -> Entry | None:
        """Add a new message to its transcript. Return its entry, or None if nobody wrote it."""
        transcript = self._transcripts.of(message.channel.id)
        if message.id in transcript and not transcript.lacks_text(message.id):
            return transcript.get(message.id)
        entry = to_entry(message, self._transcripts.directory)
        if entry is not None:
            transcript.add(entry)
        for quoted in to_entries(replied_messages([message]), self._transcripts.directory):
            transcript.quote(quoted)
        return entry

    @discord.Cog.listener()
    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Update the transcript. Discord sends this event for pinned and unpinned messages too, however old."""
        if "content" not in event.data:
            return
        self._transcripts.changed(event.channel_id, (event.message_id,))
        transcript = self._transcripts.known(event.channel_id)
        if transcript is not None and (entry := to_entry(event.new_message, self._transcripts.directory)) is not None:
            transcript.revise(entry)

    @discord.Cog.listener()
    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._delete(event.channel_id, {event.message_id})

    @discord.Cog.listener()
    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        self._delete(event.channel_id, event.message_ids)

    def _delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        if self._listener is not None:
            self._listener.deleted(channel_id, message_ids)
        self._transcripts.changed(channel_id, message_ids)
        if (transcript := self._transcripts.known(channel_id)) is not None:
            for message_id in message_ids:
                transcript.delete(message_id)

    @discord.Cog.listener()
    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        if (transcript := self._transcripts.known(event.channel_id)) is not None:
            directory, name = self._transcripts.directory, NOBODY
            guild = self._client.get_guild(event.guild_id) if event.guild_id else None
            member = event.member or (guild.get_member(event.user_id) if guild else None)
            if member is not None:
                name = directory.distinct_name(event.user_id, clean_name(member.display_name), bot=member.bot)
            transcript.react(event.message_id, str(event.emoji), event.user_id, name, bot=self._is_by_bot(event))
        self._report_reaction(event, given=True)

    @discord.Cog.listener()
    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        if (transcript := self._transcripts.known(event.channel_id)) is not None:
            transcript.unreact(event.message_id, str(event.emoji), event.user_id, bot=self._is_by_bot(event))
        self._report_reaction(event, given=False)

    def _report_reaction(self, event: discord.RawReactionActionEvent, *, given: bool) -> None:
        if self._listener is not None:
            at = (event.channel_id, event.message_id, event.user_id)
            self._listener.reacted(self._agent, *at, str(event.emoji), given=given)

    @discord.Cog.listener()
    async def on_raw_reaction_clear(self, event: discord.RawReactionClearEvent) -> None:
        self._clear_reactions(event.channel_id, event.message_id)

    @discord.Cog.listener()
    async def on_raw_reaction_clear_emoji(self, event: discord.RawReactionClearEmojiEvent) -> None:
        self._clear_reactions(event.channel_id, event.message_id, str(event.emoji))

    def _clear_reactions(self, channel_id: int, message_id: int, emoji: str | None = None) -> None:
        if (transcript := self._transcripts.known(channel_id)) is not None:
            transcript.clear_reactions(message_id, emoji)

    @discord.Cog.listener()
    async def on_guild_channel_pins_update(
        self, channel: discord.abc.GuildChannel | discord.Thread, _: datetime | None
    ) -> None:
        """Discord sends this event for threads too."""
        if (transcript := self._transcripts.known(channel.id)) is not None:
            transcript.pins.mark_stale()

    @discord.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self._drop(channel.id)

    @discord.Cog.listener()
    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        self._drop(event.thread_id)

    def _drop(self, channel_id: int) -> None:
        if self._listener is not None:
            self._listener.channel_deleted(channel_id)
        self._transcripts.drop(channel_id)

    def _is_by_bot(self, event: discord.RawReactionActionEvent) -> bool:
        """Return whether a bot gave the reaction. Discord sends the giver only in servers; our bots are known."""
        bot = event.member is not None and event.member.bot
        return bot or self._transcripts.directory.agent_of(event.user_id) is not None


def channel_problems(bot: discord.Client, channel_ids: Iterable[int], guild_ids: Collection[int]) -> Iterator[str]:
    """Yield a line for each channel where the bot can't see or write messages, and a line if it isn't in any of
    `guild_ids` (if there are any). Yields nothing while a guild is still loading."""
    if any(guild.unavailable for guild in bot.guilds):
        return
    if guild_ids and not any(guild.id in guild_ids for guild in bot.guilds):
        yield "is in no server of GUILD_IDS and gets no messages: fix the ids, or invite it there"
        return
    for channel_id in channel_ids:
        channel = bot.get_channel(channel_id)
        if channel is None:
            yield f"can't see channel {channel_id}: it doesn't exist, or the bot lacks View Channels"
        elif not isinstance(channel, Channel):
            yield f"can't speak in channel {channel_id}: it isn't a channel for messages"
        elif refusal_in(channel) is not None:
            lacks = "Send Messages" if permissions_in(channel).view_channel else "View Channels"
            yield f"may not write in #{channel} ({channel_id}): it lacks {lacks} there"


class BaseAgentCog(TranscriptCog):
    """The bot of one agent. A turn calls `model`, or its server's model in `guild_models`, only through the subclass's
    `_call_ai` and `_generate_image`. `lease` says whether this process acts for the agent."""

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
        services: Services,
        model: Model,
        guild_models: Mapping[int, Model] = MappingProxyType({}),
        *,
        lease: AnyLease = ALWAYS_HELD,
    ) -> None:
        super().__init__(bot, services.chats.transcripts, services.record.gateway, settings.spec.name)
        self.bot, self.services, self._model, self._guild_models = bot, services, model, guild_models
        self.discord = services.chats.get(DiscordService)
        self.gate = Gate(shared=self.discord.outbound)
        self.channels = DiscordChannels(settings, bot, services, self.gate, lease=lease)
        self.discord.channels[settings.spec.name] = self.channels
        self._tool_display = ToolDisplay(self.discord.webhooks, self.gate, self.channels.spot)
        self._hearing = BackgroundTasks()
        agent = build_agent(
            settings,
            services,
            self,
            model,
            guild_models,
            audience=Audience(bot.get_channel),
            display=self._tool_display,
        )
        channels = services.chats.channels_for(settings.spec.name) or self.channels
        self.host = AgentHost(agent, services, channels, lease=lease)

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """Return one completion. Raises agentic.llm.errors.ModelError."""
        raise TypeError(f"{type(self).__name__} has no _call_ai()")

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        """Return one picture. Raises agentic.llm.errors.ModelError: CannotDraw if the provider has no image model."""
        raise TypeError(f"{type(self).__name__} has no _generate_image()")

    def model_for(self, prompt: Prompt | str) -> Model:
        """Return the model for the prompt's guild, or the agent's own if the guild has none."""
        return self._guild_models.get(getattr(prompt, "guild_id", None) or 0, self._model)

    async def complete(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        """Ask the bot's model for a turn's answer (agentic.agent.agent.AgentModel)."""
        reply = await self._call_ai(prompt, history)
        text = self.gate.clean(reply.text)
        return reply if text == reply.text else replace(reply, text=text)

    async def draw(self, prompt: ImagePrompt) -> Drawing:
        """Draw a turn's picture (agentic.agent.agent.AgentModel)."""
        return await self._generate_image(prompt)

    async def aclose(self) -> None:
        """Accept no more events, and cancel running work."""
        await self.host.aclose()
        await self._tool_display.aclose()
        await self._hearing.cancel()

    @discord.Cog.listener()
    async def on_ready(self) -> None:
        """Start the host, and read missed messages. Runs after each new session, not only after the first."""
        assert self.bot.user is not None
        self.services.chats.directory.learn(self.host.name, self.bot.user.id)
        self._read_missed()
        if not self.host.ready.is_set():
            self.host.start()
            scope, servers = self.services.chats.scope, counted(len(self.bot.guilds), "server")
            log.info("%s is online as %s, in %s", self.host.name, self.bot.user, servers)
            for problem in channel_problems(self.bot, scope.channels, scope.guild_ids):
                log.warning("%s %s", self.host.name, problem)

    @discord.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._read_missed()

    @discord.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        self._read_missed()

    def _read_missed(self) -> None:
        """Fetch missed messages in the known channels. A guild may arrive later."""
        self.channels.guild_arrived()
        if self.bot.user is None:
            return
        for channel in self.channels.visible():
            view = self.channels.view(channel)
            self.discord.fetcher.catch_up(channel.id, channel.last_message_id, view.read_page, view.read_pins)
        self.host.catch_up.came_back()

    def read(self, message: discord.Message) -> HeardMessage | None:
        """Record a new message and return it as plain values, or None if its channel is out of scope."""
        if self._theme(message) is None or (entry := self.record(message)) is None:
            return None
        self.channels.note_direct(message.channel)
        directory = self.services.chats.directory
        facts = incoming_message(message, command_question(message, directory))
        who = author_of(message, directory) if entry.order is not None else None
        return HeardMessage(facts=facts, entry=entry, who=who)

    def hear(self, heard: HeardMessage) -> None:
        """Start to handle a message."""
        self._hearing.start(self.on_heard(heard), f"message {heard.facts.message_id}")

    def may_concern(self, heard: HeardMessage) -> bool:
        """Return whether this bot may have to react to a message that another bot of the process has read."""
        # An earlier message, still being handled, may turn out to be a question that this message belongs to.
        return len(self._hearing) > 0 or self.host.may_concern(heard)

    async def on_heard(self, heard: HeardMessage) -> None:
        facts = heard.facts
        theme = self.services.chats.scope.theme(facts.channel_id, facts.parent_id, facts.guild_id)
        if theme is None or self.bot.user is None:
            return
        if not facts.by_person:
            await self.host.on_bot_message(facts.channel_id, facts.message_id, theme)
        elif heard.who is None or not await self.host.on_order(heard, heard.who):
            await self.host.on_message(facts, theme)

    @discord.Cog.listener("on_raw_message_edit")
    async def on_edited_words(self, event: discord.RawMessageUpdateEvent) -> None:
        """Check another agent's post, which may be complete now, or a person's message, which may ask something now.
        The transcript has its own listener."""
        if "content" not in event.data or self.bot.user is None:
            return
        message, theme = event.new_message, self._theme(event.new_message)
        if theme is None:
            return
        if message.author.bot:
            await self.host.on_bot_message(event.channel_id, event.message_id, theme, edited=True)
        elif (said := to_entry(message, self.services.chats.directory)) is not None:
            await self.host.on_edit(event.channel_id, said)

    def _delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        super()._delete(channel_id, message_ids)
        self._hearing.start(self.host.on_deletion(channel_id, message_ids), f"deletions in {channel_id}")

    @discord.Cog.listener("on_raw_reaction_add")
    async def on_stop_reaction(self, event: discord.RawReactionActionEvent) -> None:
        """Handle a reaction that may be a command. The transcript has its own listener."""
        reaction = person_reaction(event, self.bot.get_channel(event.channel_id), self.services.chats.transcripts)
        if reaction is not None:
            await self.host.on_reaction(reaction)

    def _theme(self, message: discord.Message) -> str | None:
        guild_id = message.guild.id if message.guild else None
        return self.services.chats.scope.theme(message.channel.id, parent_of(message.channel), guild_id)


class ModelAgentCog(BaseAgentCog):
    """An agent whose models answer and draw. Another model of its list may draw a picture."""

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        return await self.model_for(prompt).complete(Prompt.of(prompt), history)

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        return await self.model_for(prompt).draw(prompt)


def parse_messages_once(cog: BaseAgentCog) -> None:
    """Replace py-cord's parser and dispatcher of new messages, for which it has no hooks."""
    state, shared = cog.bot._connection, cog.discord.heard
    parse, dispatch = state.parsers["MESSAGE_CREATE"], state.dispatch

    def parse_message(data: Any) -> None:
        try:
            channel_id, message_id = int(data["channel_id"]), int(data["id"])
        except (KeyError, TypeError, ValueError):  # let the parser report it
            parse(data)
            return
        channel = cog.bot.get_channel(channel_id)
        if (heard := shared.get(message_id)) is not None and isinstance(channel, GuildChannel):
            if cog.may_concern(heard):
                cog.hear(heard)
        elif not _is_echo(cog, channel_id, message_id):
            parse(data)
            return
        if isinstance(channel, GuildChannel):
            channel.last_message_id = message_id  # as the parser does

    def hand_over(event: str, *arguments: Any) -> None:
        if event != "message":
            dispatch(event, *arguments)
        elif (heard := cog.read(*arguments)) is not None:
            if _may_be_shared(cog, heard):
                shared[heard.facts.message_id] = heard
                if len(shared) > MAX_HEARD:
                    del shared[next(iter(shared))]
            cog.hear(heard)

    state.parsers["MESSAGE_CREATE"], state.dispatch = parse_message, hand_over


def _may_be_shared(cog: BaseAgentCog, heard: HeardMessage) -> bool:
    """Return whether other bots may use this bot's reading of a message. They may not if it lacks the text, which
    another bot may get, or if this bot leaves the message to another process."""
    facts, transcript = heard.facts, cog.services.chats.transcripts.known(heard.facts.channel_id)
    if transcript is None or facts.message_id not in transcript or transcript.lacks_text(facts.message_id):
        return False
    return facts.by_person and facts.guild_id is not None and cog.host.acts


def _is_echo(cog: BaseAgentCog, channel_id: int, message_id: int) -> bool:
    """Return whether the message is an agent's post that this bot may skip."""
    transcript, me = cog.services.chats.transcripts.known(channel_id), cog.bot.user
    entry = transcript.get(message_id) if transcript is not None else None
    if transcript is None or entry is None or me is None or entry.speaker.agent is None:
        return False
    if transcript.lacks_text(message_id) or is_unfinished(entry.text):
        return False
    return not entry.addressees.has(me.id)
