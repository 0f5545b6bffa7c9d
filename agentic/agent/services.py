"""The services that all agents of a process share; agentic.runtime opens them and hands them down."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent_config import FrontMatter, Settings
from agentic.agent.events import MentionEvent
from agentic.agent.forgetting import Forgetting
from agentic.agent.options import OptionBook
from agentic.agent.persona import Personas
from agentic.agent.privacy import OwnMemory, Privacy
from agentic.agent.roster import Roster
from agentic.agent.side_calls import CheapModel
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.service import ServiceRegistry
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry
from agentic.inbox.notices import Cancels, PersonNotices
from agentic.llm.provider_table import PrefillMemory
from agentic.process.redaction import Redactor
from agentic.record.embeddings import Embeddings
from agentic.record.memories import MemoryReader
from agentic.record.notes import ChannelReaders, Consents, GatewayNotes, MessageLog, RoomLog
from agentic.state.context import Resets
from agentic.state.live_options import LiveOptions
from agentic.state.posts import Notices
from agentic.state.record_stream import NoRecord, Notes
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.tools.toolset import Toolset
from agentic.turn.trace import TurnWatcher, TurnWatchers
from agentic.wire.bus import Bus, CoordinatorCommands
from agentic.wire.connection import or_default


@dataclass(frozen=True, slots=True)
class ServedChannels:
    """The channels, with their themes, and the guilds (empty: any) in which the program speaks. `direct` is the theme
    of direct messages, None if they are not answered."""

    channels: Mapping[int, str]
    guild_ids: frozenset[int] = frozenset()
    direct: str | None = None

    def theme(self, channel_id: int, parent_id: int | None, guild_id: int | None) -> str | None:
        """Return the theme of a channel or thread; None if the program does not speak there."""
        if guild_id is None:
            return self.direct
        if self.guild_ids and guild_id not in self.guild_ids:
            return None
        own = self.channels.get(channel_id)
        return own if own is not None or parent_id is None else self.channels.get(parent_id)


@dataclass(frozen=True, slots=True)
class IgnoredPeople:
    """The people whom the bots ignore: by the owner's settings, or by an order of a manager."""

    settings: Settings
    silence: Silence

    def has(self, user_id: int, roles: frozenset[int], guild_id: int | None) -> bool:
        """Whether the bots ignore a person with these roles in a server."""
        settings = self.settings
        return (
            self.silence.is_ignored(user_id, guild_id)
            or user_id in settings.ignore_user_ids
            or not roles.isdisjoint(settings.ignore_role_ids)
        )

    def everybody(self, guild_id: int | None) -> frozenset[int]:
        """The people whom the bots ignore in a server whatever their roles are."""
        return self.silence.ignored_people(guild_id) | frozenset(self.settings.ignore_user_ids)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Shared by the agents of a process. `names` maps every bot's key to its shown name, `roster.names` every agent's,
    personas without a bot among them."""

    settings: Settings
    scope: ServedChannels
    names: Mapping[str, str]
    roster: Roster
    bus: Bus
    state: SharedState
    silence: Silence
    forgetting: Forgetting
    orders: CoordinatorCommands
    chats: ServiceRegistry
    directory: Directory
    transcripts: Transcripts
    attachments: AttachmentReader
    clock: Callable[[], float]
    rng: random.Random
    resets: Resets
    notices: Notices
    options: OptionBook
    live_options: LiveOptions
    redact: Redactor = field(default_factory=Redactor)
    record: Notes = field(default_factory=NoRecord)
    watcher: TurnWatcher = field(default_factory=TurnWatchers)
    channel_readers: ChannelReaders = field(default_factory=ChannelReaders)
    memory: MemoryReader = field(default_factory=MemoryReader)
    tools: Toolset | None = None  # None: agents have no tools
    personas: Personas | None = None  # None: persona files are not read
    cheap: CheapModel | None = None  # None: there is none
    meaning: Embeddings | None = None  # of texts, by the embedding model; None: there is none
    prefill: PrefillMemory = field(default_factory=PrefillMemory)

    @cached_property
    def gateway_notes(self) -> GatewayNotes:
        drop_summary, posted_by = self.state.context.summaries.drop_covering, self.memory.posted_by
        return GatewayNotes(self.record, self.transcripts, self.clock, drop_summary, posted_by)

    @cached_property
    def consents(self) -> Consents:
        """Whether people want messages that nobody asked for."""
        return Consents(self.record, self.state.posts.proactive, self.clock)

    @cached_property
    def cancels(self) -> Cancels:
        return Cancels(self.bus)

    @cached_property
    def room_log(self) -> RoomLog:
        return RoomLog(self.clock, self.ignored.has)

    @cached_property
    def message_log(self) -> MessageLog:
        return MessageLog(
            self.transcripts,
            self.channel_readers,
            self.record,
            self.clock,
            is_ignored=self.ignored.has,
            late_seconds=self.settings.mention_catchup_seconds,
            deleted=self.gateway_notes.deleted,
        )

    @cached_property
    def own_memory(self) -> OwnMemory:
        """The profiles and wishes that people may see and change."""
        return OwnMemory(self.memory, self.record, self.consents, self.clock, self.settings, self.forgetting)

    @cached_property
    def privacy(self) -> Privacy:
        """The answers to people who ask what is kept."""
        acting = self.settings.account_agents

        @or_default((), "/privacy names this process's bots only")
        async def online() -> Collection[str]:
            return await self.state.coordination.presence.online(self.names)

        def fronts() -> Mapping[str, FrontMatter]:
            return {one.key: one.front for one in self.roster if one.is_bot or one.key in acting}

        return Privacy(
            self.own_memory, self.channel_readers, self.settings, self.roster.names, online=online, fronts=fronts
        )

    @cached_property
    def ignored(self) -> IgnoredPeople:
        return IgnoredPeople(self.settings, self.silence)

    @cached_property
    def person_notices(self) -> PersonNotices:
        return PersonNotices(self.bus, self.directory, self.roster.names)

    def mention(self, asked: Entry, channel_id: int, theme: str, *, to_all: bool = False, **more: Any) -> MentionEvent:
        """The event of a message that calls an agent, with TURN_TIMEOUT_SECONDS; `more` are further fields of it."""
        now, seconds = self.clock(), self.settings.turn_timeout_seconds
        return MentionEvent.of(
            asked, channel_id=channel_id, theme=theme, to_all=to_all, now=now, seconds=seconds, **more
        )
